//! Persist on Postgres: releases a lease, with back-off after a failure.

use broker_domain::Version;
use broker_ports::{Lease, PassOutcome, PortError, Released};
use uuid::Uuid;

use crate::error::ClassifyError;
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::{microseconds, to_i64, without_nul};

params! {
    /// `reason`, `message` and the back-off are set for a failure only. `due_microseconds` is then its minimum wait.
    struct ReleaseValues<'a> {
        id: Uuid,
        epoch: i64,
        expected_version: i64,
        due_microseconds: Option<i64>,
        reason: Option<&'a str>,
        message: Option<&'a str>,
        backoff_first: Option<i64>,
        backoff_longest: Option<i64>,
        accepted_loss_handled: bool,
    }
}

columns! {
    struct ReleaseRow {
        done: bool,
    }
}

/// Locks the resource row before its schedule row, as every write does, and compares the version of the locked row.
/// Version 0 means that the worker could not read the row. `least` ignores NULL, which means never due. If an operator
/// accepts a loss after the claim, `wished` is set, and the release does not end the acceptance.
pub(crate) const RELEASE_LEASE: Statement<ReleaseValues<'_>, ReleaseRow> = Statement::new(
    "schedule.release",
    "WITH stored AS MATERIALIZED (
    SELECT version = $3 OR $3 = 0 AS unchanged FROM plexsphere.provisioned_resources
    WHERE id = $1
    FOR SHARE
), placed AS MATERIALIZED (
    SELECT stored.unchanged, s.wished, s.attempts + CASE WHEN stored.unchanged THEN 1 ELSE 0 END AS attempts
    FROM stored CROSS JOIN plexsphere.provisioned_resource_schedule AS s
    WHERE s.provisioned_resource_id = $1 AND s.lease_epoch = $2 AND s.lease_owner IS NOT NULL
    FOR NO KEY UPDATE OF s
), outcome AS MATERIALIZED (
    SELECT unchanged, attempts, CASE
        WHEN $5::text IS NULL THEN clock_timestamp() + $4::bigint * interval '1 microsecond'
        ELSE clock_timestamp() + interval '1 microsecond' * greatest(
            random() * least($8::bigint::float8, $7::bigint::float8 * power(2::float8, least(greatest(attempts - 1, 0), 62))),
            least(coalesce($4::bigint, 0), $8::bigint)::float8)
    END AS due_at
    FROM placed
), over AS (
    DELETE FROM plexsphere.provisioning_permits AS p
    USING placed
    WHERE $9 AND NOT placed.wished AND p.provisioned_resource_id = $1 AND p.accepted
)
UPDATE plexsphere.provisioned_resource_schedule AS s
SET lease_owner = NULL, lease_until = NULL,
    due_at = CASE WHEN o.unchanged AND NOT s.wished THEN o.due_at ELSE least(s.due_at, o.due_at) END,
    attempts = CASE WHEN $5::text IS NULL THEN 0 WHEN o.unchanged THEN o.attempts ELSE s.attempts END,
    last_reason = CASE WHEN $5::text IS NULL OR o.unchanged THEN $5 ELSE s.last_reason END,
    last_error = CASE WHEN $5::text IS NULL OR o.unchanged THEN $6::text ELSE s.last_error END
FROM outcome AS o
WHERE s.provisioned_resource_id = $1
RETURNING true AS done",
);

impl PgStore {
    pub(super) async fn end_lease(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Result<Released, PortError> {
        let (due_in, failure) = match outcome {
            PassOutcome::Succeeded { due_in } | PassOutcome::SucceededArmed { due_in } => {
                (*due_in, None)
            }
            PassOutcome::Failed { reason, message, retry_after, backoff } => {
                (*retry_after, Some((without_nul(reason), without_nul(message), *backoff)))
            }
            PassOutcome::Ended { reason, message, backoff } => {
                (None, Some((without_nul(reason), without_nul(message), *backoff)))
            }
        };
        let values = ReleaseValues {
            id: lease.resource.as_uuid(),
            epoch: to_i64(lease.epoch.get()),
            expected_version: to_i64(seen.get()),
            due_microseconds: due_in.map(microseconds),
            reason: failure.as_ref().map(|(reason, ..)| reason.as_str()),
            message: failure.as_ref().map(|(_, message, _)| message.as_str()),
            backoff_first: failure.as_ref().map(|(.., backoff)| microseconds(backoff.first)),
            backoff_longest: failure.as_ref().map(|(.., backoff)| microseconds(backoff.longest)),
            accepted_loss_handled: matches!(outcome, PassOutcome::SucceededArmed { .. }),
        };
        let mut connection = self.connection().await?;
        let row = RELEASE_LEASE.optional(&mut connection, values).await.map_commit_error()?;
        let done = row.is_some_and(|ReleaseRow { done }| done);
        Ok(if done { Released::Done } else { Released::LeaseLost })
    }
}
