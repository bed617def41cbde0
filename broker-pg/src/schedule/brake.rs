//! Persist on Postgres: the brakes of a cluster, shared by every replica.

use broker_domain::{ClusterId, Error, ProjectId};
use broker_ports::{Attribution, AuditAction, Brake, BrakeRelease, PortError};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::{to_i64, to_u64};

params! {
    struct BrakeValues<'a> {
        cluster_id: &'a str,
    }
}

columns! {
    struct BrakeRow {
        project_id: Option<Uuid>,
        absent: i64,
        expected: i64,
        since: OffsetDateTime,
    }
}

params! {
    struct SetBrakeValues<'a> {
        cluster_id: &'a str,
        project_id: Option<Uuid>,
        absent: i64,
        expected: i64,
        since: OffsetDateTime,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

params! {
    struct ReleaseBrakeValues<'a> {
        cluster_id: &'a str,
        project_id: Option<Uuid>,
        resources: Vec<Uuid>,
        losses: Vec<String>,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

columns! {
    struct ChangedRow {
        changed: i64,
    }
}

/// The brake of the whole cluster comes first.
pub(crate) const READ_BRAKES: Statement<BrakeValues<'_>, BrakeRow> = Statement::new(
    "schedule.brakes",
    "SELECT project_id, absent, expected, since FROM plexsphere.provisioning_brake
WHERE cluster_id = $1 ORDER BY project_id NULLS FIRST",
);

/// An existing brake stays; only an insert writes an audit line.
pub(crate) const SET_BRAKE: Statement<SetBrakeValues<'_>, ChangedRow> = Statement::new(
    "schedule.set_brake",
    "WITH changed AS (
    INSERT INTO plexsphere.provisioning_brake (cluster_id, project_id, absent, expected, since)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT ON CONSTRAINT provisioning_brake_key DO NOTHING
    RETURNING cluster_id, project_id
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (cluster_id, project_id, action, actor, correlation_id)
    SELECT cluster_id, project_id, $6, $7, $8 FROM changed
)
SELECT count(*) AS changed FROM changed",
);

/// An accepted loss replaces its permit and no longer counts against the budget. Locks schedule rows in id order, so
/// that two releases cannot deadlock.
pub(crate) const RELEASE_BRAKE: Statement<ReleaseBrakeValues<'_>, ChangedRow> = Statement::new(
    "schedule.release_brake",
    "WITH changed AS (
    DELETE FROM plexsphere.provisioning_brake
    WHERE cluster_id = $1 AND project_id IS NOT DISTINCT FROM $2
    RETURNING cluster_id, project_id
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (cluster_id, project_id, action, actor, correlation_id)
    SELECT cluster_id, project_id, $5, $6, $7 FROM changed
), placed AS MATERIALIZED (
    SELECT s.provisioned_resource_id FROM plexsphere.provisioned_resource_schedule AS s
    WHERE s.provisioned_resource_id = ANY ($3)
    ORDER BY s.provisioned_resource_id
    FOR NO KEY UPDATE
), accepted AS (
    INSERT INTO plexsphere.provisioning_permits AS p
        (provisioned_resource_id, loss, cluster_id, taken_at, accepted)
    SELECT placed.provisioned_resource_id, a.loss, $1, clock_timestamp(), true
    FROM placed JOIN unnest($3::uuid[], $4::text[]) AS a (id, loss) ON a.id = placed.provisioned_resource_id
    ON CONFLICT ON CONSTRAINT provisioning_permits_pkey DO UPDATE SET accepted = true
), due AS (
    UPDATE plexsphere.provisioned_resource_schedule AS s
    SET due_at = clock_timestamp(), wished = true, attempts = 0, last_reason = NULL, last_error = NULL
    FROM placed WHERE s.provisioned_resource_id = placed.provisioned_resource_id
), woken AS MATERIALIZED (
    SELECT pg_notify('plexsphere_provisioning_broker', provisioned_resource_id::text) FROM placed
)
SELECT (SELECT count(*) FROM changed) + 0 * (SELECT count(*) FROM woken) AS changed",
);

impl PgStore {
    pub(super) async fn select_brakes(&self, cluster: &ClusterId) -> Result<Vec<Brake>, PortError> {
        let mut connection = self.connection().await?;
        let values = BrakeValues { cluster_id: cluster.as_str() };
        let rows = READ_BRAKES.all(&mut connection, values).await.map_uncommitted_error()?;
        let brakes = rows.into_iter().map(BrakeRow::into_brake).collect::<Result<_, _>>();
        brakes.map_err(|error| invalid_row("provisioning_brake", cluster, error))
    }

    pub(super) async fn insert_brake(
        &self,
        cluster: &ClusterId,
        brake: &Brake,
        by: &Attribution,
    ) -> Result<(), PortError> {
        let values = SetBrakeValues {
            cluster_id: cluster.as_str(),
            project_id: brake.project.map(|project| project.as_uuid()),
            absent: to_i64(brake.absent),
            expected: to_i64(brake.expected),
            since: brake.since,
            action: AuditAction::BrakeSet.as_str(),
            actor: by.actor.as_str(),
            correlation_id: by.correlation_id.as_str(),
        };
        let mut connection = self.connection().await?;
        SET_BRAKE.one(&mut connection, values).await.map_commit_error().map(drop)
    }

    pub(super) async fn delete_brake(&self, release: &BrakeRelease) -> Result<bool, PortError> {
        let BrakeRelease { cluster, project, accepted, by, .. } = release;
        let values = ReleaseBrakeValues {
            cluster_id: cluster.as_str(),
            project_id: project.map(|project| project.as_uuid()),
            resources: accepted.iter().map(|loss| loss.resource.as_uuid()).collect(),
            losses: accepted.iter().map(|loss| loss.lost.to_string()).collect(),
            action: AuditAction::BrakeReleased.as_str(),
            actor: by.actor.as_str(),
            correlation_id: by.correlation_id.as_str(),
        };
        let mut connection = self.connection().await?;
        let ChangedRow { changed } =
            RELEASE_BRAKE.one(&mut connection, values).await.map_commit_error()?;
        Ok(changed > 0)
    }
}

impl BrakeRow {
    fn into_brake(self) -> Result<Brake, Error> {
        let Self { project_id, absent, expected, since } = self;
        let brake = Brake::new(to_u64("absent", absent)?, to_u64("expected", expected)?, since);
        Ok(match project_id {
            Some(project) => brake.of_project(ProjectId::new(project)?),
            None => brake,
        })
    }
}
