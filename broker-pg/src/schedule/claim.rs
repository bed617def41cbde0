//! Persist on Postgres: claims due resources. Projects take turns, and a resource has at most one holder.

use broker_domain::{ClusterId, Error, ProvisionedResourceId};
use broker_ports::{ClaimRequest, ClaimTarget, Lane, Lease, LeaseEpoch, PortError, WorkerId};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::{microseconds, to_u32, to_u64};

params! {
    struct ClaimDueValues<'a> {
        lane: &'a str,
        limit: i64,
        worker: &'a str,
        lease_microseconds: i64,
        cluster_id: Option<&'a str>,
    }
}

params! {
    struct ClaimOneValues<'a> {
        id: Uuid,
        worker: &'a str,
        lease_microseconds: i64,
        cluster_id: Option<&'a str>,
        even_paused: bool,
    }
}

columns! {
    struct LeaseRow {
        id: Uuid,
        lease_epoch: i64,
        lease_until: OffsetDateTime,
        attempts: i32,
        takeover: bool,
    }
}

/// Reads indexes only, and only as far as needed. `soonest` holds the entries of all Projects that have been
/// due longest. If no more entries are due, its Projects are the candidates, and a claim without due work is cheap. If
/// more are due, `walked` jumps from one Project with work in the lane to the next. Otherwise a Project with thousands
/// of due resources would hide the others. Only then does the cost grow with the number of Projects: three index lookups
/// for each.
///
/// `heads` selects the Projects with due work whose turn is next. `queue` takes the first entry of each, and further
/// entries in rounds only if these do not fill the claim. Both read more entries than requested, so that concurrent
/// claims find unlocked entries.
///
/// Every part skips rows that are bound to another cluster; `soonest` finds the cluster in its index.
///
/// `picked` locks the rows in that order, skips locked ones, and re-checks rows that changed since the statement
/// started. The claim does not record the turn of a Project whose turn a concurrent claim has locked, because that claim
/// records it. It waits only while another claim inserts the first turn of a Project.
pub(crate) const CLAIM_DUE: Statement<ClaimDueValues<'_>, LeaseRow> = Statement::new(
    "schedule.claim.due",
    "WITH RECURSIVE soonest AS MATERIALIZED (
    SELECT project_id FROM plexsphere.provisioned_resource_schedule
    WHERE lane = $1 AND NOT paused AND due_at <= statement_timestamp()
        AND (cluster_id IS NULL OR cluster_id = $5 OR $5::text IS NULL)
    ORDER BY due_at LIMIT 512
), walked AS (
    (SELECT project_id FROM plexsphere.provisioned_resource_schedule
     WHERE lane = $1 AND due_at IS NOT NULL AND NOT paused AND (SELECT count(*) FROM soonest) = 512
     ORDER BY project_id LIMIT 1)
    UNION ALL
    SELECT (SELECT s.project_id FROM plexsphere.provisioned_resource_schedule AS s
            WHERE s.lane = $1 AND s.due_at IS NOT NULL AND NOT s.paused AND s.project_id > w.project_id
            ORDER BY s.project_id LIMIT 1)
    FROM walked AS w WHERE w.project_id IS NOT NULL
), projects AS (
    SELECT project_id FROM soonest UNION SELECT project_id FROM walked
), heads AS MATERIALIZED (
    SELECT p.project_id, h.due_at, h.provisioned_resource_id, (
        SELECT t.served_at FROM plexsphere.provisioning_turns AS t
        WHERE t.lane = $1 AND t.project_id = p.project_id
    ) AS served_at
    FROM projects AS p
        CROSS JOIN LATERAL (
            SELECT s.due_at, s.provisioned_resource_id
            FROM plexsphere.provisioned_resource_schedule AS s
            WHERE s.lane = $1 AND s.project_id = p.project_id AND NOT s.paused
                AND s.due_at <= statement_timestamp()
                AND (s.lease_until IS NULL OR s.lease_until <= statement_timestamp())
                AND (s.cluster_id IS NULL OR s.cluster_id = $5 OR $5::text IS NULL)
            ORDER BY s.due_at, s.provisioned_resource_id LIMIT 1
        ) AS h
    ORDER BY served_at NULLS FIRST, h.due_at, h.provisioned_resource_id
    LIMIT $2::bigint + 64
), queue AS MATERIALIZED (
    SELECT c.provisioned_resource_id, row_number() OVER (
        ORDER BY c.round, h.served_at NULLS FIRST, h.due_at, h.provisioned_resource_id
    ) AS place
    FROM heads AS h
        CROSS JOIN LATERAL (
            SELECT d.provisioned_resource_id,
                row_number() OVER (ORDER BY d.due_at, d.provisioned_resource_id) AS round
            FROM (
                SELECT s.due_at, s.provisioned_resource_id
                FROM plexsphere.provisioned_resource_schedule AS s
                WHERE s.lane = $1 AND s.project_id = h.project_id AND NOT s.paused
                    AND s.due_at <= statement_timestamp()
                    AND (s.lease_until IS NULL OR s.lease_until <= statement_timestamp())
                    AND (s.cluster_id IS NULL OR s.cluster_id = $5 OR $5::text IS NULL)
                ORDER BY s.due_at, s.provisioned_resource_id
                LIMIT (SELECT CASE WHEN count(*) >= $2 THEN 2 ELSE $2 + 64 END FROM heads)
            ) AS d
        ) AS c
), picked AS MATERIALIZED (
    SELECT s.provisioned_resource_id, s.project_id, s.lease_owner IS NOT NULL AS takeover, q.place
    FROM queue AS q
        JOIN plexsphere.provisioned_resource_schedule AS s USING (provisioned_resource_id)
    WHERE s.lane = $1 AND NOT s.paused AND s.due_at <= statement_timestamp()
        AND (s.lease_until IS NULL OR s.lease_until <= statement_timestamp())
        AND (s.cluster_id IS NULL OR s.cluster_id = $5 OR $5::text IS NULL)
    ORDER BY q.place
    LIMIT $2
    FOR NO KEY UPDATE OF s SKIP LOCKED
), claimed AS (
    UPDATE plexsphere.provisioned_resource_schedule AS s
    SET lease_owner = $3, lease_epoch = s.lease_epoch + 1, wished = false,
        lease_until = clock_timestamp() + $4::bigint * interval '1 microsecond'
    FROM picked AS p
    WHERE s.provisioned_resource_id = p.provisioned_resource_id
    RETURNING s.provisioned_resource_id AS id, s.lease_epoch, s.lease_until, s.attempts, p.takeover, p.place
), served AS MATERIALIZED (
    SELECT project_id, statement_timestamp() + max(place) * interval '1 microsecond' AS at
    FROM picked GROUP BY project_id
), turns AS MATERIALIZED (
    SELECT t.project_id, s.at
    FROM served AS s JOIN plexsphere.provisioning_turns AS t USING (project_id)
    WHERE t.lane = $1
    FOR NO KEY UPDATE OF t SKIP LOCKED
), turned AS (
    UPDATE plexsphere.provisioning_turns AS t SET served_at = greatest(t.served_at, turns.at)
    FROM turns WHERE t.lane = $1 AND t.project_id = turns.project_id
), begun AS (
    INSERT INTO plexsphere.provisioning_turns (lane, project_id, served_at)
    SELECT $1, s.project_id, s.at FROM served AS s
    WHERE NOT EXISTS (
        SELECT FROM plexsphere.provisioning_turns AS t
        WHERE t.lane = $1 AND t.project_id = s.project_id
    )
    ORDER BY s.project_id
    ON CONFLICT ON CONSTRAINT provisioning_turns_pkey DO NOTHING
)
SELECT id, lease_epoch, lease_until, attempts, takeover FROM claimed ORDER BY place",
);

pub(crate) const CLAIM_ONE: Statement<ClaimOneValues<'_>, LeaseRow> = Statement::new(
    "schedule.claim.one",
    "WITH picked AS MATERIALIZED (
    SELECT provisioned_resource_id, lease_owner IS NOT NULL AS takeover
    FROM plexsphere.provisioned_resource_schedule
    WHERE provisioned_resource_id = $1 AND lane IS NOT NULL AND (NOT paused OR $5)
        AND (cluster_id IS NULL OR cluster_id = $4 OR $4::text IS NULL)
        AND (lease_until IS NULL OR lease_until <= statement_timestamp())
    FOR NO KEY UPDATE
)
UPDATE plexsphere.provisioned_resource_schedule AS s
SET lease_owner = $2, lease_epoch = s.lease_epoch + 1, wished = false,
    lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM picked AS p
WHERE s.provisioned_resource_id = p.provisioned_resource_id
RETURNING s.provisioned_resource_id AS id, s.lease_epoch, s.lease_until, s.attempts, p.takeover",
);

const fn lane_name(lane: Lane) -> &'static str {
    match lane {
        Lane::Converge => "converge",
        Lane::Teardown => "teardown",
    }
}

impl PgStore {
    pub(super) async fn lease_due(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        let worker = request.worker.as_str();
        let lease_microseconds = microseconds(request.lease_for);
        let cluster_id = request.cluster.as_ref().map(ClusterId::as_str);
        let one_values = |id: ProvisionedResourceId, even_paused| ClaimOneValues {
            id: id.as_uuid(),
            worker,
            lease_microseconds,
            cluster_id,
            even_paused,
        };
        let mut connection = self.connection().await?;
        let rows = match request.target {
            ClaimTarget::One(id) => CLAIM_ONE.all(&mut connection, one_values(id, false)).await,
            ClaimTarget::EvenPaused(id) => {
                CLAIM_ONE.all(&mut connection, one_values(id, true)).await
            }
            ClaimTarget::Due { lane, limit } => {
                let (lane, limit) = (lane_name(lane), i64::from(limit.get()));
                let values = ClaimDueValues { lane, limit, worker, lease_microseconds, cluster_id };
                CLAIM_DUE.all(&mut connection, values).await
            }
        };
        let rows = rows.map_commit_error()?;
        rows.into_iter().map(|row| row.into_lease(&request.worker)).collect()
    }
}

impl LeaseRow {
    fn into_lease(self, worker: &WorkerId) -> Result<Lease, PortError> {
        let id = self.id;
        self.parse(worker).map_err(|error| invalid_row("provisioned_resource_schedule", id, error))
    }

    fn parse(self, worker: &WorkerId) -> Result<Lease, Error> {
        let Self { id, lease_epoch, lease_until, attempts, takeover } = self;
        let epoch = LeaseEpoch::new(to_u64("lease_epoch", lease_epoch)?);
        let id = ProvisionedResourceId::new(id)?;
        let lease = Lease::new(id, epoch, worker.clone(), lease_until)
            .with_attempts(to_u32("attempts", attempts)?);
        Ok(if takeover { lease.taken_over() } else { lease })
    }
}
