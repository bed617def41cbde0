//! Persist on Postgres: permits to replace lost objects, within one budget for all replicas.

use std::collections::BTreeSet;

use broker_domain::{BootstrapTokenId, ClusterId, Error, ProvisionedResourceId, XrUid};
use broker_ports::{AuditAction, Loss, LostObject, Permit, PermitRequest, PortError};
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::transaction;
use crate::values::{microseconds, to_i64};

params! {
    struct BudgetValues<'a> {
        cluster_id: &'a str,
    }
}

params! {
    struct PermitValues<'a> {
        id: Uuid,
        epoch: i64,
        expected_version: i64,
        cluster_id: &'a str,
        loss: &'a str,
        min_permits: i64,
        percent: i64,
        max_permits: i64,
        within_microseconds: i64,
        fleet_count_limit: i64,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

columns! {
    struct LockedRow {
        locked: bool,
    }
}

columns! {
    struct PermitRow {
        verdict: String,
    }
}

columns! {
    struct LossRow {
        provisioned_resource_id: Uuid,
        loss: String,
    }
}

/// Serializes the permit requests of a cluster. A separate statement: the next one must see the previous commit, so
/// it must start after the lock is acquired.
pub(crate) const LOCK_BUDGET: Statement<BudgetValues<'_>, LockedRow> = Statement::new(
    "schedule.permit.lock",
    "SELECT pg_advisory_xact_lock(hashtextextended('provisioning permits ' || $1, 0)) IS NOT NULL AS locked",
);

/// Locks the resource row before its schedule row, as every write does. A permit that is older than its window
/// is charged again. Otherwise unused permits would accumulate, and all could be used at the same time. Also deletes permits whose
/// window has passed: those for earlier losses of the resource, and those of purged resources.
pub(crate) const TAKE_PERMIT: Statement<PermitValues<'_>, PermitRow> = Statement::new(
    "schedule.permit",
    "WITH stored AS MATERIALIZED (
    SELECT id, project_id, status, version FROM plexsphere.provisioned_resources
    WHERE id = $1
    FOR SHARE
), placed AS MATERIALIZED (
    SELECT stored.*, s.lease_epoch
    FROM stored CROSS JOIN plexsphere.provisioned_resource_schedule AS s
    WHERE s.provisioned_resource_id = $1
    FOR SHARE OF s
), known AS MATERIALIZED (
    SELECT FROM plexsphere.provisioning_permits
    WHERE provisioned_resource_id = $1 AND loss = $5
        AND (accepted OR taken_at > clock_timestamp() - $9::bigint * interval '1 microsecond')
), spent AS MATERIALIZED (
    SELECT count(*) AS permits FROM plexsphere.provisioning_permits
    WHERE cluster_id = $4 AND NOT accepted
        AND taken_at > clock_timestamp() - $9::bigint * interval '1 microsecond'
), fleet AS MATERIALIZED (
    SELECT count(*) AS size FROM (
        SELECT FROM plexsphere.provisioned_resources
        WHERE status IN ('Pending', 'Provisioning', 'Enrolling', 'Ready')
            AND xr_uid IS NOT NULL AND cluster_id = $4
        LIMIT $10
    ) AS counted
), judged AS MATERIALIZED (
    SELECT id, project_id, status, lease_epoch, CASE
        WHEN lease_epoch <> $2 THEN 'lease lost'
        WHEN version <> $3 THEN 'stale'
        WHEN EXISTS (
            SELECT FROM plexsphere.provisioning_brake AS b
            WHERE b.cluster_id = $4 AND (b.project_id IS NULL OR b.project_id = placed.project_id)
        ) THEN 'braked'
        WHEN EXISTS (SELECT FROM known) THEN 'known'
        WHEN spent.permits >= least($8::bigint, greatest($6::bigint, fleet.size * $7::bigint / 100))
            THEN 'over budget'
        ELSE 'granted'
    END AS verdict
    FROM placed CROSS JOIN spent CROSS JOIN fleet
), forgotten AS (
    DELETE FROM plexsphere.provisioning_permits AS p
    USING judged
    WHERE judged.verdict = 'granted' AND p.cluster_id = $4
        AND (p.provisioned_resource_id = $1 AND p.loss <> $5 OR NOT EXISTS (
            SELECT FROM plexsphere.provisioned_resources AS r WHERE r.id = p.provisioned_resource_id
        ))
        AND p.taken_at <= clock_timestamp() - 2 * $9::bigint * interval '1 microsecond'
), taken AS (
    INSERT INTO plexsphere.provisioning_permits
        (provisioned_resource_id, loss, cluster_id, taken_at, accepted)
    SELECT id, $5, $4, clock_timestamp(), false FROM judged WHERE verdict = 'granted'
    ON CONFLICT ON CONSTRAINT provisioning_permits_pkey DO UPDATE SET taken_at = EXCLUDED.taken_at, cluster_id = EXCLUDED.cluster_id
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase, new_phase, epoch)
    SELECT project_id, id, $11, $12, $13, status, status, lease_epoch FROM judged WHERE verdict = 'granted'
)
SELECT verdict FROM judged",
);

pub(crate) const ACCEPTED_LOSSES: Statement<BudgetValues<'_>, LossRow> = Statement::new(
    "schedule.accepted_losses",
    "SELECT provisioned_resource_id, loss FROM plexsphere.provisioning_permits
WHERE cluster_id = $1 AND accepted",
);

impl PgStore {
    pub(super) async fn take_permit(&self, request: &PermitRequest) -> Result<Permit, PortError> {
        let PermitRequest { lease, seen, cluster, lost, allowance, by, .. } = request;
        let (cluster_id, loss) = (cluster.as_str(), lost.to_string());
        let values = PermitValues {
            id: lease.resource.as_uuid(),
            epoch: to_i64(lease.epoch.get()),
            expected_version: to_i64(seen.get()),
            cluster_id,
            loss: &loss,
            min_permits: to_i64(allowance.min_permits),
            percent: to_i64(allowance.percent),
            max_permits: to_i64(allowance.max_permits),
            within_microseconds: microseconds(allowance.within),
            fleet_count_limit: to_i64(allowance.fleet_count_limit()),
            action: AuditAction::PermitTaken.as_str(),
            actor: by.actor.as_str(),
            correlation_id: by.correlation_id.as_str(),
        };
        let mut transaction = transaction::begin(&self.pool).await.map_uncommitted_error()?;
        let lock = LOCK_BUDGET
            .one(&mut transaction, BudgetValues { cluster_id })
            .await
            .map_uncommitted_error()?;
        debug_assert!(lock.locked, "the lock statement did not lock");
        let row = TAKE_PERMIT.optional(&mut transaction, values).await.map_uncommitted_error()?;
        transaction.commit().await.map_commit_error()?;
        match row.as_ref().map(|row| row.verdict.as_str()) {
            None | Some("stale") => Ok(Permit::Stale),
            Some("lease lost") => Ok(Permit::LeaseLost),
            Some("braked") => Ok(Permit::Braked),
            Some("over budget") => Ok(Permit::OverBudget),
            Some("known" | "granted") => Ok(Permit::Granted),
            Some(other) => Err(PortError::rejected(format!("{other:?} is not a permit verdict"))),
        }
    }

    pub(super) async fn select_accepted_losses(
        &self,
        cluster: &ClusterId,
    ) -> Result<BTreeSet<Loss>, PortError> {
        let mut connection = self.connection().await?;
        let values = BudgetValues { cluster_id: cluster.as_str() };
        let rows = ACCEPTED_LOSSES.all(&mut connection, values).await.map_uncommitted_error()?;
        let losses = rows.into_iter().map(|row| {
            let id = row.provisioned_resource_id;
            row.into_loss().map_err(|error| invalid_row("provisioning_permits", id, error))
        });
        losses.collect()
    }
}

impl LossRow {
    fn into_loss(self) -> Result<Loss, Error> {
        let Self { provisioned_resource_id, loss } = self;
        let resource = ProvisionedResourceId::new(provisioned_resource_id)?;
        let lost = match loss.split_once(':') {
            Some(("xr", uid)) => LostObject::Xr(XrUid::new(uid)?),
            Some(("node", token)) => {
                let invalid = |_| Error::invalid("loss", format!("{token:?} is not a token id"));
                LostObject::Node(BootstrapTokenId::new(Uuid::parse_str(token).map_err(invalid)?)?)
            }
            Some(_) | None => {
                return Err(Error::invalid("loss", format!("{loss:?} is neither xr nor node")));
            }
        };
        Ok(Loss { resource, lost })
    }
}
