//! Persist on Postgres: purges resources that became Deleted before the retention period.

use broker_domain::ProvisionedResourceId;
use broker_ports::{Actor, AuditAction, PortError, PurgeRequest};
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::microseconds;

params! {
    struct PurgeValues<'a> {
        retention_microseconds: i64,
        limit: i64,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

columns! {
    struct PurgedRow {
        id: Uuid,
    }
}

/// A Deleted row is never written again, so its last change is the deletion. Skips locked rows; the next purge
/// deletes them. A permit outlives its row, because it counts until the budget window ends.
pub(crate) const PURGE_RESOURCES: Statement<PurgeValues<'_>, PurgedRow> = Statement::new(
    "repository.purge_deleted",
    "WITH over AS MATERIALIZED (
    SELECT r.id
    FROM plexsphere.provisioned_resources AS r
        JOIN plexsphere.provisioned_resource_schedule AS s ON s.provisioned_resource_id = r.id
    WHERE r.status = 'Deleted'
        AND r.updated_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
        AND NOT EXISTS (
            SELECT FROM plexsphere.provisioning_outbox AS e
            WHERE e.provisioned_resource_id = r.id AND e.settled_at IS NULL
        )
    ORDER BY r.updated_at
    LIMIT $2
    FOR UPDATE OF s, r SKIP LOCKED
), gone AS (
    DELETE FROM plexsphere.provisioned_resources WHERE id = ANY (ARRAY(SELECT id FROM over))
    RETURNING id, project_id, status
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase, new_phase)
    SELECT project_id, id, $3, $4, $5, status, status FROM gone ORDER BY id
)
SELECT id FROM gone ORDER BY id",
);

impl PgStore {
    pub(super) async fn delete_purgeable(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        let broker = Actor::system();
        let values = PurgeValues {
            retention_microseconds: microseconds(request.retention),
            limit: i64::from(request.limit.get()),
            action: AuditAction::Purged.as_str(),
            actor: broker.as_str(),
            correlation_id: "purge",
        };
        let mut connection = self.connection().await?;
        let rows = PURGE_RESOURCES.all(&mut connection, values).await.map_commit_error()?;
        rows.into_iter()
            .map(|PurgedRow { id }| {
                ProvisionedResourceId::new(id)
                    .map_err(|error| invalid_row("provisioned_resources", id, error))
            })
            .collect()
    }
}
