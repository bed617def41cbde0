//! Outbox throughput: the time to drain an outbox with N events. The baseline claims and acknowledges with two bare
//! statements, in the relay's batch size. The naive way handles one event at a time and uses one
//! transaction per write.

use std::sync::Arc;

use async_trait::async_trait;
use broker_app::{BrokerConfig, Relay};
use broker_ports::{Envelope, EventSink, PageSize, PortError};
use broker_testkit::builders::rows;
use sqlx::{Executor, PgPool};
use uuid::Uuid;

use super::fixture::{Fixture, commit, relay};
use super::harness::{BenchOptions, Way};

const FILL: &str = "INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
SELECT gen_random_uuid(), id, 1, 'broker.ProvisionedResourceRequested', clock_timestamp(),
    json_build_object('event_type', 'broker.ProvisionedResourceRequested', 'provisioned_resource_id', id,
        'project_id', id, 'resource_id', id, 'blueprint_version_id', id, 'cloud_credential_id', id,
        'occurred_at', clock_timestamp(), 'sequence', 1, 'xr_name', 'pr-' || id)::text
FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $1)) AS fresh";

const CLAIM: &str = "UPDATE plexsphere.provisioning_outbox
SET claimed_by = 'bare', held_until = clock_timestamp() + interval '1 minute', claims = claims + 1
WHERE event_id = ANY (ARRAY(
    SELECT event_id FROM plexsphere.provisioning_outbox
    WHERE settled_at IS NULL AND dead_letter_reason IS NULL
        AND (held_until IS NULL OR held_until <= statement_timestamp())
    ORDER BY position LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING event_id, payload";

const ACKNOWLEDGE: &str = "UPDATE plexsphere.provisioning_outbox
SET settled_at = clock_timestamp(), claimed_by = NULL, held_until = NULL
WHERE event_id = $1 AND claimed_by = 'bare' AND settled_at IS NULL";

pub(super) async fn run(options: BenchOptions) {
    let fixture = Fixture::new().await;
    let default = BrokerConfig::default().deliveries_at_once;
    for (name, count, batch) in [
        ("250 events", 250, default),
        ("1,000 events", 1_000, default),
        ("4,000 events", 4_000, default),
        ("4,000 events, batches of 1,000", 4_000, rows(1_000)),
    ] {
        drain(options, &fixture, name, options.size(count), batch).await;
    }
}

async fn drain(
    options: BenchOptions,
    fixture: &Fixture,
    name: &str,
    count: usize,
    batch: PageSize,
) {
    let pool = fixture.world.pool();
    let relay = relay(&fixture.world.ports, batch, Arc::new(AcceptAll));
    let case = options.case(fixture, name, count);
    for round in case.rounds() {
        fill(pool, count).await;
        round.measure(Way::Baseline, baseline(pool, count, batch)).await;
        fill(pool, count).await;
        round.measure(Way::Ours, deliver(&relay, count)).await;
        fill(pool, count).await;
        round.measure(Way::Naive, one_by_one(pool, count)).await;
    }
}

struct AcceptAll;

#[async_trait]
impl EventSink for AcceptAll {
    async fn deliver(&self, _: &Envelope) -> Result<(), PortError> {
        Ok(())
    }
}

async fn fill(pool: &PgPool, count: usize) {
    pool.execute("TRUNCATE plexsphere.provisioning_outbox").await.unwrap();
    sqlx::query(FILL).bind(i32::try_from(count).unwrap()).execute(pool).await.unwrap();
    pool.execute("VACUUM (ANALYZE) plexsphere.provisioning_outbox").await.unwrap();
}

async fn deliver(relay: &Relay, count: usize) {
    let mut delivered = 0;
    loop {
        let report = relay.deliver_batch().await.unwrap();
        if !report.was_busy() {
            // The batch was empty, so the outbox is drained.
            break;
        }
        delivered += report.delivered;
    }
    assert_eq!(delivered, count);
}

async fn baseline(pool: &PgPool, count: usize, batch: PageSize) {
    let mut delivered = 0;
    loop {
        let claim = sqlx::query_as::<_, (Uuid, String)>(CLAIM).bind(i64::from(batch.get()));
        let claimed = claim.fetch_all(pool).await.unwrap();
        if claimed.is_empty() {
            break;
        }
        for (event, _) in claimed {
            let done = sqlx::query(ACKNOWLEDGE).bind(event).execute(pool).await.unwrap();
            delivered += done.rows_affected();
        }
    }
    assert_eq!(delivered, count as u64);
}

async fn one_by_one(pool: &PgPool, count: usize) {
    let mut delivered = 0;
    loop {
        let mut transaction = pool.begin().await.unwrap();
        let claim = sqlx::query_as::<_, (Uuid, String)>(CLAIM).bind(1_i64);
        let claimed = claim.fetch_optional(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        let Some((event, _)) = claimed else { break };
        delivered += commit(pool, sqlx::query(ACKNOWLEDGE).bind(event)).await;
    }
    assert_eq!(delivered, count as u64);
}
