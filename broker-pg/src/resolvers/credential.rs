//! Cloud credentials: where they lie, for the Projects that were assigned them.

use async_trait::async_trait;
use broker_domain::{CloudCredentialId, CloudId, ProjectId};
use broker_ports::{CredentialResolver, CredentialView, PortError};
use uuid::Uuid;

use super::PgNeighbours;
use crate::error::{Classified, drifted};

/// Joined with the assignment, so that a credential of somebody else looks like none at all.
const RESOLVE_CREDENTIAL: &str = "\
SELECT credential.cloud_id, credential.kv_mount, credential.kv_path
FROM plexsphere.cloud_credentials AS credential
JOIN plexsphere.cloud_credential_assignments AS assignment
    ON assignment.cloud_credential_id = credential.id
WHERE assignment.project_id = $1 AND credential.id = $2";

#[async_trait]
impl CredentialResolver for PgNeighbours {
    async fn resolve(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> Result<Option<CredentialView>, PortError> {
        let row: Option<(Uuid, String, String)> = sqlx::query_as(RESOLVE_CREDENTIAL)
            .bind(project.as_uuid())
            .bind(id.as_uuid())
            .fetch_optional(&self.pool)
            .await
            .harmless()?;
        let Some((cloud_id, kv_mount, kv_path)) = row else { return Ok(None) };
        let cloud_id =
            CloudId::new(cloud_id).map_err(|error| drifted("cloud_credentials", id, error))?;
        Ok(Some(CredentialView::new(id, cloud_id, kv_mount, kv_path)))
    }
}
