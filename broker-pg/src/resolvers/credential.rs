//! Declare: resolves the location of cloud credentials, for the Projects that they are assigned to.

use async_trait::async_trait;
use broker_domain::{CloudCredentialId, CloudId, Error, ProjectId};
use broker_ports::{ApprovalState, CredentialResolver, CredentialState, CredentialView, PortError};
use uuid::Uuid;

use super::PgPlatform;
use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};

params! {
    struct ResolveCredentialValues {
        project_id: Uuid,
        id: Uuid,
    }
}

columns! {
    struct CredentialRow {
        cloud_id: Uuid,
        kv_mount: String,
        kv_path: String,
        state: String,
        approval: String,
    }
}

/// Joins the assignment, so that a foreign credential is indistinguishable from a missing one.
pub(crate) const RESOLVE_CREDENTIAL: Statement<ResolveCredentialValues, CredentialRow> =
    Statement::new(
        "credential_resolver.resolve",
        "SELECT credential.cloud_id, credential.kv_mount, credential.kv_path, credential.state,
        assignment.state AS approval
    FROM plexsphere.cloud_credentials AS credential
    JOIN plexsphere.cloud_credential_assignments AS assignment
        ON assignment.cloud_credential_id = credential.id
    WHERE assignment.project_id = $1 AND credential.id = $2",
    );

#[async_trait]
impl CredentialResolver for PgPlatform {
    #[tracing::instrument(name = "db.cloud_credential.resolve", skip_all, fields(%project, credential = %id))]
    async fn resolve(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> Result<Option<CredentialView>, PortError> {
        let mut connection = self.connection().await?;
        let values = ResolveCredentialValues { project_id: project.as_uuid(), id: id.as_uuid() };
        let row =
            RESOLVE_CREDENTIAL.optional(&mut connection, values).await.map_uncommitted_error()?;
        row.map(|row| parse_row(id, row))
            .transpose()
            .map_err(|error| invalid_row("cloud_credentials", id, error))
    }
}

fn parse_row(id: CloudCredentialId, row: CredentialRow) -> Result<CredentialView, Error> {
    let CredentialRow { cloud_id, kv_mount, kv_path, state, approval } = row;
    let state = CredentialState::try_from(state.as_str())?;
    let approval = ApprovalState::try_from(approval.as_str())?;
    let view = CredentialView::new(id, CloudId::new(cloud_id)?, kv_mount, kv_path);
    Ok(view.in_state(state, approval))
}
