//! Persist on Postgres: sweep pages, with only the columns that a sweep needs.

use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, Error, MeshRole, OnFailure,
    Parameters, Phase, ProjectId, ProvisionedResourceId, ResourceId, Version,
};
use broker_ports::{CompactRow, PortError, SweepPage, SweepQuery};
use time::OffsetDateTime;
use uuid::Uuid;

use super::list::{CutPage, bytes_before_column, cut_to_page, limit_with_lookahead, start_after};
use super::row::{parse_cluster_id, parse_references_digest, parse_xr_uid};
use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::to_u64;

params! {
    struct SweepValues {
        after: Uuid,
        limit: i64,
        bytes: i64,
    }
}

columns! {
    struct SweepRow {
        now: OffsetDateTime,
        id: Uuid,
        project_id: Uuid,
        resource_id: Uuid,
        blueprint_version_id: Uuid,
        cloud_credential_id: Uuid,
        status: String,
        version: i64,
        mesh_role: String,
        on_failure: String,
        bootstrap_token_id: Option<Uuid>,
        token_closed: bool,
        cluster_id: Option<String>,
        references_digest: Option<Vec<u8>>,
        xr_uid: Option<String>,
        parameters: Option<String>,
        due_at: Option<OffsetDateTime>,
        lease_until: Option<OffsetDateTime>,
        paused: bool,
    }
}

columns! {
    struct NowRow {
        now: OffsetDateTime,
    }
}

params! {
    struct SweepOfProjectValues {
        after: Uuid,
        limit: i64,
        bytes: i64,
        project_id: Uuid,
    }
}

macro_rules! sweep_rows {
    ($condition:literal) => {
        concat!(
            "SELECT statement_timestamp() AS now, id, project_id, resource_id, blueprint_version_id,
    cloud_credential_id, status, version, mesh_role, on_failure, bootstrap_token_id, token_closed,
    cluster_id, references_digest, xr_uid, parameters::text AS parameters, due_at, lease_until, paused
FROM (
    SELECT *, ",
            bytes_before_column!(),
            "
    FROM (
        SELECT r.id, r.project_id, r.resource_id, r.blueprint_version_id, r.cloud_credential_id, r.status,
            r.version, r.mesh_role, r.on_failure, r.bootstrap_token_id, r.token_closed, r.cluster_id,
            r.references_digest, r.xr_uid,
            CASE WHEN r.status IN ('Pending', 'Provisioning', 'Enrolling') THEN r.parameters END AS parameters,
            s.due_at, s.lease_until, s.paused
        FROM plexsphere.provisioned_resources AS r
            JOIN plexsphere.provisioned_resource_schedule AS s ON s.provisioned_resource_id = r.id
        WHERE r.status <> 'Deleted' AND (r.status <> 'Failed' OR r.on_failure <> 'retain') AND r.id > $1
            AND s.provisioned_resource_id > $1",
            $condition,
            "
        ORDER BY r.id LIMIT $2
    ) AS page
) AS page
WHERE held_before <= $3 ORDER BY id"
        )
    };
}

/// Bounds both tables by the start id. Otherwise a merge join would read the second table from its first row for every
/// page.
pub(crate) const SWEEP_PAGE: Statement<SweepValues, SweepRow> =
    Statement::new("repository.sweep_page", sweep_rows!(""));

/// A separate statement, so that Postgres uses the index of the Project's rows.
pub(crate) const SWEEP_PAGE_OF_PROJECT: Statement<SweepOfProjectValues, SweepRow> =
    Statement::new("repository.sweep_page_of_project", sweep_rows!(" AND r.project_id = $4"));

/// Used for an empty page, which has no row with the time.
pub(crate) const READ_NOW: Statement<(), NowRow> =
    Statement::new("repository.now", "SELECT statement_timestamp() AS now");

impl PgStore {
    pub(super) async fn select_sweep_page(
        &self,
        query: &SweepQuery,
    ) -> Result<SweepPage, PortError> {
        let SweepQuery { project, after, limit, bytes, .. } = *query;
        let (after, limit_rows, limit_bytes) =
            (start_after(after), limit_with_lookahead(limit), bytes.get().into());
        let mut connection = self.connection().await?;
        let rows = if let Some(project) = project {
            let project_id = project.as_uuid();
            let values =
                SweepOfProjectValues { after, limit: limit_rows, bytes: limit_bytes, project_id };
            SWEEP_PAGE_OF_PROJECT.all(&mut connection, values).await
        } else {
            let values = SweepValues { after, limit: limit_rows, bytes: limit_bytes };
            SWEEP_PAGE.all(&mut connection, values).await
        };
        let rows = rows.map_uncommitted_error()?;
        let now = match rows.first() {
            Some(row) => row.now,
            None => READ_NOW.one(&mut connection, ()).await.map_uncommitted_error()?.now,
        };
        let parameter_bytes = |row: &SweepRow| row.parameters.as_ref().map_or(0, String::len);
        let CutPage { readable, unreadable, next } = cut_to_page(
            rows,
            (limit, bytes),
            |row| row.id,
            parameter_bytes,
            SweepRow::into_compact,
        )?;
        Ok(SweepPage::new(readable, next, now).with_unreadable(unreadable))
    }
}

impl SweepRow {
    fn into_compact(self) -> Result<CompactRow, PortError> {
        let id = self.id;
        self.parse().map_err(|error| invalid_row("provisioned_resources", id, error))
    }

    fn parse(self) -> Result<CompactRow, Error> {
        let Self {
            now: _,
            id,
            project_id,
            resource_id,
            blueprint_version_id,
            cloud_credential_id,
            status,
            version,
            mesh_role,
            on_failure,
            bootstrap_token_id,
            token_closed,
            cluster_id,
            references_digest,
            xr_uid,
            parameters,
            due_at,
            lease_until,
            paused,
        } = self;
        let mut row = CompactRow::new(
            ProvisionedResourceId::new(id)?,
            ProjectId::new(project_id)?,
            ResourceId::new(resource_id)?,
            BlueprintVersionId::new(blueprint_version_id)?,
            CloudCredentialId::new(cloud_credential_id)?,
            MeshRole::try_from(mesh_role.as_str())?,
            Phase::try_from(status.as_str())?,
        );
        row.version = Version::new(to_u64("version", version)?)?;
        row.on_failure = OnFailure::try_from(on_failure.as_str())?;
        row.bootstrap_token_id = bootstrap_token_id.map(BootstrapTokenId::new).transpose()?;
        row.token_closed = token_closed;
        row.cluster = parse_cluster_id(cluster_id)?;
        row.references_digest = parse_references_digest(references_digest)?;
        row.applied = parse_xr_uid(xr_uid)?;
        row.parameters = parameters.map(Parameters::from_canonical_json).transpose()?;
        row.due_at = due_at;
        row.lease_until = lease_until;
        row.paused = paused;
        Ok(row)
    }
}
