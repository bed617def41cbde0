//! Persist on Postgres: the schedule port. The submodules implement claims, releases, brakes, permits and wake-ups.

pub(crate) mod brake;
pub(crate) mod claim;
pub(crate) mod permit;
pub(crate) mod release;
mod wakeups;

use std::collections::BTreeSet;

use async_trait::async_trait;
use broker_domain::{ClusterId, Error, ProvisionedResourceId, Version};
use broker_ports::{
    Attribution, AuditAction, Brake, BrakeRelease, ClaimRequest, Due, Lease, LeaseEpoch, Loss,
    PassOutcome, Permit, PermitRequest, PortError, Released, Schedule, ScheduleEntry, Wakeups,
    WorkerId,
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::{microseconds, to_u32, to_u64};

params! {
    struct ScheduleValues {
        id: Uuid,
        wait_microseconds: i64,
        wake: bool,
    }
}

columns! {
    struct FoundRow {
        found: i64,
    }
}

params! {
    struct EntryValues {
        id: Uuid,
    }
}

columns! {
    struct EntryRow {
        due_at: Option<OffsetDateTime>,
        attempts: i32,
        last_reason: Option<String>,
        last_error: Option<String>,
        paused: bool,
        lease_owner: Option<String>,
        lease_epoch: i64,
        lease_until: Option<OffsetDateTime>,
        now: OffsetDateTime,
    }
}

params! {
    struct PauseValues<'a> {
        id: Uuid,
        paused: bool,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

pub(crate) const SET_DUE: Statement<ScheduleValues, FoundRow> = Statement::new(
    "schedule.schedule",
    "WITH changed AS (
    UPDATE plexsphere.provisioned_resource_schedule
    SET due_at = least(due_at, clock_timestamp() + $2::bigint * interval '1 microsecond'), wished = true
    WHERE provisioned_resource_id = $1
    RETURNING provisioned_resource_id
), woken AS MATERIALIZED (
    SELECT pg_notify('plexsphere_provisioning_broker', provisioned_resource_id::text) FROM changed WHERE $3
)
SELECT (SELECT count(*) FROM changed) + 0 * (SELECT count(*) FROM woken) AS found",
);

pub(crate) const READ_ENTRY: Statement<EntryValues, EntryRow> = Statement::new(
    "schedule.entry",
    "SELECT due_at, attempts, last_reason, last_error, paused, lease_owner, lease_epoch, lease_until,
    clock_timestamp() AS now
FROM plexsphere.provisioned_resource_schedule WHERE provisioned_resource_id = $1",
);

/// A no-op writes no audit line. Locks the resource row before its schedule row, as every write does.
pub(crate) const SET_PAUSED: Statement<PauseValues<'_>, FoundRow> = Statement::new(
    "schedule.set_paused",
    "WITH stored AS MATERIALIZED (
    SELECT id, project_id, status FROM plexsphere.provisioned_resources
    WHERE id = $1
    FOR SHARE
), placed AS MATERIALIZED (
    SELECT stored.id, stored.project_id, stored.status, s.paused
    FROM stored CROSS JOIN plexsphere.provisioned_resource_schedule AS s
    WHERE s.provisioned_resource_id = $1
    FOR NO KEY UPDATE OF s
), changed AS (
    UPDATE plexsphere.provisioned_resource_schedule AS s
    SET paused = $2, wished = s.wished OR NOT $2,
        due_at = CASE WHEN $2 THEN s.due_at ELSE least(s.due_at, clock_timestamp()) END
    FROM placed
    WHERE s.provisioned_resource_id = placed.id AND placed.paused <> $2
    RETURNING placed.id, placed.project_id, placed.status
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase, new_phase)
    SELECT project_id, id, $3, $4, $5, status, status FROM changed
), woken AS MATERIALIZED (
    SELECT pg_notify('plexsphere_provisioning_broker', id::text) FROM changed WHERE NOT $2
)
SELECT (SELECT count(*) FROM placed) + 0 * (SELECT count(*) FROM woken) AS found",
);

#[async_trait]
impl Schedule for PgStore {
    #[tracing::instrument(name = "db.provisioned_resource_schedule.claim", skip_all, fields(worker = %request.worker))]
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        self.lease_due(request).await
    }

    #[tracing::instrument(name = "db.provisioned_resource_schedule.release", skip_all, fields(resource = %lease.resource))]
    async fn release(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Result<Released, PortError> {
        self.end_lease(lease, seen, outcome).await
    }

    #[tracing::instrument(name = "db.provisioned_resource_schedule.schedule", skip_all, fields(resource = %id))]
    async fn schedule(&self, id: ProvisionedResourceId, due: Due) -> Result<bool, PortError> {
        let (wait_microseconds, wake) = match due {
            Due::Now => (0, true),
            Due::After(wait) => (microseconds(wait), false),
        };
        let values = ScheduleValues { id: id.as_uuid(), wait_microseconds, wake };
        let mut connection = self.connection().await?;
        let FoundRow { found } = SET_DUE.one(&mut connection, values).await.map_commit_error()?;
        Ok(found > 0)
    }

    #[tracing::instrument(name = "db.provisioned_resource_schedule.entry", skip_all, fields(resource = %id))]
    async fn entry(&self, id: ProvisionedResourceId) -> Result<Option<ScheduleEntry>, PortError> {
        let mut connection = self.connection().await?;
        let values = EntryValues { id: id.as_uuid() };
        let row = READ_ENTRY.optional(&mut connection, values).await.map_uncommitted_error()?;
        row.map(|row| {
            row.into_entry()
                .map_err(|error| invalid_row("provisioned_resource_schedule", id, error))
        })
        .transpose()
    }

    #[tracing::instrument(name = "db.provisioned_resource_schedule.set_paused", skip_all, fields(resource = %id))]
    async fn set_paused(
        &self,
        id: ProvisionedResourceId,
        paused: bool,
        by: &Attribution,
    ) -> Result<bool, PortError> {
        let action = if paused { AuditAction::Paused } else { AuditAction::Resumed };
        let values = PauseValues {
            id: id.as_uuid(),
            paused,
            action: action.as_str(),
            actor: by.actor.as_str(),
            correlation_id: by.correlation_id.as_str(),
        };
        let mut connection = self.connection().await?;
        let FoundRow { found } =
            SET_PAUSED.one(&mut connection, values).await.map_commit_error()?;
        Ok(found > 0)
    }

    #[tracing::instrument(name = "db.provisioning_brake.read", skip_all, fields(%cluster))]
    async fn brakes(&self, cluster: &ClusterId) -> Result<Vec<Brake>, PortError> {
        self.select_brakes(cluster).await
    }

    #[tracing::instrument(name = "db.provisioning_brake.set", skip_all, fields(%cluster))]
    async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: &Brake,
        by: &Attribution,
    ) -> Result<(), PortError> {
        self.insert_brake(cluster, brake, by).await
    }

    #[tracing::instrument(name = "db.provisioning_brake.release", skip_all, fields(cluster = %release.cluster))]
    async fn release_brake(&self, release: &BrakeRelease) -> Result<bool, PortError> {
        self.delete_brake(release).await
    }

    #[tracing::instrument(name = "db.provisioning_permits.take", skip_all, fields(resource = %request.lease.resource))]
    async fn permit(&self, request: &PermitRequest) -> Result<Permit, PortError> {
        self.take_permit(request).await
    }

    #[tracing::instrument(name = "db.provisioning_permits.accepted", skip_all, fields(%cluster))]
    async fn accepted_losses(&self, cluster: &ClusterId) -> Result<BTreeSet<Loss>, PortError> {
        self.select_accepted_losses(cluster).await
    }

    #[tracing::instrument(name = "db.provisioned_resource_schedule.wakeups", skip_all)]
    async fn wakeups(&self) -> Result<Wakeups, PortError> {
        self.listen().await
    }
}

impl EntryRow {
    fn into_entry(self) -> Result<ScheduleEntry, Error> {
        let Self {
            due_at,
            attempts,
            last_reason,
            last_error,
            paused,
            lease_owner,
            lease_epoch,
            lease_until,
            now,
        } = self;
        let mut entry = ScheduleEntry::new(now, now);
        entry.due_at = due_at;
        entry.attempts = to_u32("attempts", attempts)?;
        entry.last_error = last_reason.zip(last_error);
        entry.paused = paused;
        entry.epoch = LeaseEpoch::new(to_u64("lease_epoch", lease_epoch)?);
        entry.lease = lease_owner.map(WorkerId::new).transpose()?.zip(lease_until);
        Ok(entry)
    }
}
