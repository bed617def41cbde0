//! Claim throughput: 1, 4 and 16 workers concurrently claim and release due resources, one at a time. The
//! baseline is the simplest `SKIP LOCKED` statement without turns. The naive way waits for row locks and uses
//! one transaction per write.

use std::sync::Arc;

use broker_app::BrokerConfig;
use broker_domain::Version;
use broker_pg::{PgStore, test_idle_connections};
use broker_ports::{ClaimRequest, ClaimTarget, Lane, PassOutcome, Schedule};
use broker_testkit::builders::{rows, worker};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};
use uuid::Uuid;

use super::fixture::{Fixture, commit, for_each_concurrent};
use super::harness::{BenchOptions, Way};

/// More connections than workers, so that no worker waits for one.
const CONNECTIONS: u32 = 20;

/// The version of the furnished rows.
const FURNISHED_VERSION: u64 = 6;

const CLAIM: &str = "UPDATE plexsphere.provisioned_resource_schedule
SET lease_owner = 'bare', lease_epoch = lease_epoch + 1, lease_until = clock_timestamp() + interval '1 minute'
WHERE provisioned_resource_id = (
    SELECT provisioned_resource_id FROM plexsphere.provisioned_resource_schedule
    WHERE lane = 'converge' AND NOT paused AND due_at <= statement_timestamp()
        AND (lease_until IS NULL OR lease_until <= statement_timestamp())
    ORDER BY due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING provisioned_resource_id";

const FIRST: &str = "SELECT provisioned_resource_id FROM plexsphere.provisioned_resource_schedule
WHERE lane = 'converge' AND NOT paused AND due_at <= statement_timestamp()
    AND (lease_until IS NULL OR lease_until <= statement_timestamp())
ORDER BY due_at LIMIT 1 FOR NO KEY UPDATE";

const TAKE: &str = "UPDATE plexsphere.provisioned_resource_schedule
SET lease_owner = 'naive', lease_epoch = lease_epoch + 1, lease_until = clock_timestamp() + interval '1 minute'
WHERE provisioned_resource_id = $1";

const RELEASE: &str = "UPDATE plexsphere.provisioned_resource_schedule
SET lease_owner = NULL, lease_until = NULL, due_at = NULL WHERE provisioned_resource_id = $1";

pub(super) async fn run(options: BenchOptions) {
    let fixture = Fixture::new().await;
    let count = options.size(500);
    fixture.world.create_machine_rows(count).await;
    let connect = test_idle_connections(PgPoolOptions::new());
    let connect = connect.max_connections(CONNECTIONS).min_connections(CONNECTIONS);
    let pool = connect.connect_with(fixture.world.database().options()).await.unwrap();
    for (name, workers) in [("1 worker", 1), ("4 workers", 4), ("16 workers", 16)] {
        let case = options.case(&fixture, name, workers);
        for round in case.rounds() {
            make_due(&pool).await;
            round.measure(Way::Baseline, run_workers(workers, &pool, baseline)).await;
            make_due(&pool).await;
            round.measure(Way::Ours, run_workers(workers, &pool, ours)).await;
            make_due(&pool).await;
            round.measure(Way::Naive, run_workers(workers, &pool, naive)).await;
        }
    }
}

async fn make_due(pool: &PgPool) {
    let due = "UPDATE plexsphere.provisioned_resource_schedule SET due_at = clock_timestamp()";
    pool.execute(due).await.unwrap();
    pool.execute("VACUUM (ANALYZE) plexsphere.provisioned_resource_schedule").await.unwrap();
}

async fn run_workers<F>(workers: usize, pool: &PgPool, work: fn(PgPool, usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let shared = pool.clone();
    for_each_concurrent(workers, (0..workers).collect(), move |number| {
        work(shared.clone(), number)
    })
    .await;
    let due =
        "SELECT count(*) FROM plexsphere.provisioned_resource_schedule WHERE due_at IS NOT NULL";
    assert_eq!(sqlx::query_scalar::<_, i64>(due).fetch_one(pool).await.unwrap(), 0);
}

async fn ours(pool: PgPool, number: usize) {
    let store: Arc<dyn Schedule> = Arc::new(PgStore::new(pool));
    let lease = BrokerConfig::default().lease;
    let target = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
    let request = ClaimRequest::new(worker(&format!("worker-{number}")), target, lease);
    let (version, outcome) =
        (Version::new(FURNISHED_VERSION).unwrap(), PassOutcome::Succeeded { due_in: None });
    loop {
        let claimed = store.claim(&request).await.unwrap();
        let Some(lease) = claimed.first() else { break };
        store.release(lease, version, &outcome).await.unwrap();
    }
}

async fn baseline(pool: PgPool, _: usize) {
    loop {
        let claimed: Option<Uuid> = sqlx::query_scalar(CLAIM).fetch_optional(&pool).await.unwrap();
        let Some(claimed) = claimed else { break };
        sqlx::query(RELEASE).bind(claimed).execute(&pool).await.unwrap();
    }
}

async fn naive(pool: PgPool, _: usize) {
    loop {
        let mut transaction = pool.begin().await.unwrap();
        let first: Option<Uuid> =
            sqlx::query_scalar(FIRST).fetch_optional(&mut *transaction).await.unwrap();
        let Some(first) = first else {
            transaction.rollback().await.unwrap();
            // Another worker may have claimed the row first; others may still be due.
            if nothing_is_due(&pool).await {
                break;
            }
            continue;
        };
        sqlx::query(TAKE).bind(first).execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        commit(&pool, sqlx::query(RELEASE).bind(first)).await;
    }
}

async fn nothing_is_due(pool: &PgPool) -> bool {
    let due = "SELECT count(*) FROM plexsphere.provisioned_resource_schedule
        WHERE due_at IS NOT NULL AND lease_until IS NULL";
    sqlx::query_scalar::<_, i64>(due).fetch_one(pool).await.unwrap() == 0
}
