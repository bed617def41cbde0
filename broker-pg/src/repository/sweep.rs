//! Stage 2 on Postgres: pages of everything that is not at rest, as rows just wide enough for a sweep.

use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, Error, MeshRole, OnFailure,
    Parameters, Phase, ProjectId, ProvisionedResourceId, ResourceId, Version,
};
use broker_ports::{CompactRow, PortError, SweepPage, SweepQuery};
use time::OffsetDateTime;
use uuid::Uuid;

use super::list::{Cut, beginning, cut, one_more};
use super::row::{cluster_of, digest_of};
use crate::error::{Classified, drifted};
use crate::sql::{Statement, gives, takes};
use crate::store::PgStore;
use crate::values::unsigned;

takes! {
    struct SweepValues {
        after: Uuid,
        limit: i64,
    }
}

gives! {
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
        parameters: Option<String>,
        due_at: Option<OffsetDateTime>,
        lease_until: Option<OffsetDateTime>,
        paused: bool,
    }
}

gives! {
    struct NowRow {
        now: OffsetDateTime,
    }
}

/// Where the page begins is said of both tables: a join that walks them side by side would otherwise begin at
/// the first row of the second one, page after page.
pub(crate) const SWEEP: Statement<SweepValues, SweepRow> = Statement::new(
    "repository.sweep_page",
    "SELECT statement_timestamp() AS now, r.id, r.project_id, r.resource_id, r.blueprint_version_id,
    r.cloud_credential_id, r.status, r.version, r.mesh_role, r.on_failure, r.bootstrap_token_id,
    r.token_closed, r.cluster_id, r.references_digest,
    CASE WHEN r.status IN ('Pending', 'Provisioning', 'Enrolling') THEN r.parameters::text END AS parameters,
    s.due_at, s.lease_until, s.paused
FROM plexsphere.provisioned_resources AS r
    JOIN plexsphere.provisioned_resource_schedule AS s ON s.provisioned_resource_id = r.id
WHERE r.status <> 'Deleted' AND (r.status <> 'Failed' OR r.on_failure <> 'retain') AND r.id > $1
    AND s.provisioned_resource_id > $1
ORDER BY r.id LIMIT $2",
);

/// For an empty page, which has no row that could say it.
pub(crate) const NOW: Statement<(), NowRow> =
    Statement::new("repository.now", "SELECT statement_timestamp() AS now");

impl PgStore {
    pub(super) async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        let SweepQuery { after, limit, .. } = *query;
        let values = SweepValues { after: beginning(after), limit: one_more(limit) };
        let mut connection = self.connection().await?;
        let rows = SWEEP.all(&mut connection, values).await.harmless()?;
        let now = match rows.first() {
            Some(row) => row.now,
            None => NOW.one(&mut connection, ()).await.harmless()?.now,
        };
        let Cut { readable, unreadable, next } =
            cut(rows, limit, |row| row.id, SweepRow::into_compact)?;
        Ok(SweepPage::new(readable, next, now).beside(unreadable))
    }
}

impl SweepRow {
    fn into_compact(self) -> Result<CompactRow, PortError> {
        let id = self.id;
        self.compact().map_err(|error| drifted("provisioned_resources", id, error))
    }

    fn compact(self) -> Result<CompactRow, Error> {
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
        row.version = Version::new(unsigned("version", version)?)?;
        row.on_failure = OnFailure::try_from(on_failure.as_str())?;
        row.bootstrap_token_id = bootstrap_token_id.map(BootstrapTokenId::new).transpose()?;
        row.token_closed = token_closed;
        row.cluster = cluster_of(cluster_id)?;
        row.references_digest = digest_of(references_digest)?;
        row.parameters = parameters.map(Parameters::from_canonical_json).transpose()?;
        row.due_at = due_at;
        row.lease_until = lease_until;
        row.paused = paused;
        Ok(row)
    }
}
