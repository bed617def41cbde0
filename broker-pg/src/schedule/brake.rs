//! Stage 2 on Postgres: the brake of a cluster, which every replica obeys.

use broker_domain::ClusterId;
use broker_ports::{Attribution, AuditAction, Brake, PortError};
use time::OffsetDateTime;

use crate::error::{Classified, drifted};
use crate::sql::{Statement, gives, takes};
use crate::store::PgStore;
use crate::values::{signed, unsigned};

takes! {
    struct BrakeValues<'a> {
        cluster_id: &'a str,
    }
}

gives! {
    struct BrakeRow {
        absent: i64,
        expected: i64,
        since: OffsetDateTime,
    }
}

takes! {
    struct SetBrakeValues<'a> {
        cluster_id: &'a str,
        absent: i64,
        expected: i64,
        since: OffsetDateTime,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

takes! {
    struct ReleaseBrakeValues<'a> {
        cluster_id: &'a str,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

gives! {
    struct ChangedRow {
        changed: i64,
    }
}

pub(crate) const READ_BRAKE: Statement<BrakeValues<'_>, BrakeRow> = Statement::new(
    "schedule.brake",
    "SELECT absent, expected, since FROM plexsphere.provisioning_brake WHERE cluster_id = $1",
);

/// The first brake stays; only who sets it leaves a line.
pub(crate) const SET_BRAKE: Statement<SetBrakeValues<'_>, ChangedRow> = Statement::new(
    "schedule.set_brake",
    "WITH changed AS (
    INSERT INTO plexsphere.provisioning_brake (cluster_id, absent, expected, since)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT ON CONSTRAINT provisioning_brake_pkey DO NOTHING
    RETURNING cluster_id
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit (cluster_id, action, actor, correlation_id)
    SELECT cluster_id, $5, $6, $7 FROM changed
)
SELECT count(*) AS changed FROM changed",
);

pub(crate) const RELEASE_BRAKE: Statement<ReleaseBrakeValues<'_>, ChangedRow> = Statement::new(
    "schedule.release_brake",
    "WITH changed AS (
    DELETE FROM plexsphere.provisioning_brake WHERE cluster_id = $1
    RETURNING cluster_id
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit (cluster_id, action, actor, correlation_id)
    SELECT cluster_id, $2, $3, $4 FROM changed
)
SELECT count(*) AS changed FROM changed",
);

impl PgStore {
    pub(super) async fn brake(&self, cluster: &ClusterId) -> Result<Option<Brake>, PortError> {
        let mut connection = self.connection().await?;
        let values = BrakeValues { cluster_id: cluster.as_str() };
        let row = READ_BRAKE.optional(&mut connection, values).await.harmless()?;
        let Some(BrakeRow { absent, expected, since }) = row else { return Ok(None) };
        let drift = |error| drifted("provisioning_brake", cluster, error);
        let absent = unsigned("absent", absent).map_err(drift)?;
        let expected = unsigned("expected", expected).map_err(drift)?;
        Ok(Some(Brake::new(absent, expected, since)))
    }

    pub(super) async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: Option<&Brake>,
        by: &Attribution,
    ) -> Result<(), PortError> {
        let cluster_id = cluster.as_str();
        let (actor, correlation_id) = (by.actor.as_str(), by.correlation_id.as_str());
        let mut connection = self.connection().await?;
        let changed = if let Some(brake) = brake {
            let values = SetBrakeValues {
                cluster_id,
                absent: signed(brake.absent),
                expected: signed(brake.expected),
                since: brake.since,
                action: AuditAction::BrakeSet.as_str(),
                actor,
                correlation_id,
            };
            SET_BRAKE.one(&mut connection, values).await
        } else {
            let action = AuditAction::BrakeReleased.as_str();
            let values = ReleaseBrakeValues { cluster_id, action, actor, correlation_id };
            RELEASE_BRAKE.one(&mut connection, values).await
        };
        let ChangedRow { changed } = changed.committing()?;
        tracing::debug!(cluster = cluster_id, changed, "brake");
        Ok(())
    }
}
