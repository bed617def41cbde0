//! A sweep of N Ready machines with a warm cache: a no-op.
//!
//! The baseline reads the same columns of the same rows, in the same pages. The naive way sends one GET per resource.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker_app::Sweeper;
use broker_domain::XrName;
use broker_embed::Parts;
use broker_kube::cache::Cache;
use broker_tests::real::{Machine, RealWorld, TIMEOUT, wire};
use broker_tests::until;
use broker_tests::world::NODE;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use sqlx::postgres::PgRow;
use sqlx::types::time::OffsetDateTime;
use sqlx::{PgPool, Row};
use uuid::Uuid;

use super::fake_api_server;
use super::fixture::{Fixture, run_cache};
use super::harness::{BenchOptions, Way};

/// The broker's page size for rows.
const PAGE: i64 = 1_000;

/// The columns that a sweep needs.
const SCAN: &str = "SELECT statement_timestamp() AS now, r.id, r.project_id, r.resource_id, r.blueprint_version_id,
    r.cloud_credential_id, r.status, r.version, r.mesh_role, r.on_failure, r.bootstrap_token_id,
    r.token_closed, r.cluster_id, r.references_digest, s.due_at, s.lease_until, s.paused
FROM plexsphere.provisioned_resources AS r
    JOIN plexsphere.provisioned_resource_schedule AS s ON s.provisioned_resource_id = r.id
WHERE r.status <> 'Deleted' AND (r.status <> 'Failed' OR r.on_failure <> 'retain') AND r.id > $1
    AND s.provisioned_resource_id > $1
ORDER BY r.id LIMIT $2";

pub(super) async fn run(options: BenchOptions) {
    for (name, count) in [("100", 100), ("1,000", 1_000), ("10,000", 10_000)] {
        on_real_servers(options, name, options.size(count)).await;
    }
    with_cluster_in_memory(options, "100,000, cluster in memory", options.size(100_000)).await;
}

async fn on_real_servers(options: BenchOptions, name: &str, count: usize) {
    let fixture = Fixture::new().await;
    let world = &fixture.world;
    let machines = world.create_machines(count).await;
    let _running = world.run_cache();
    warm(&world.sweeper, &world.cache).await;
    let composites = composites(&fixture);
    let case = options.case(&fixture, name, count);
    for round in case.rounds() {
        round.measure(Way::Baseline, scan(world.pool(), count)).await;
        round.measure(Way::Ours, sweep(&world.sweeper, count)).await;
        round.measure(Way::Naive, get_each(world, &composites, &machines)).await;
    }
}

async fn with_cluster_in_memory(options: BenchOptions, name: &str, count: usize) {
    let fixture = Fixture::new().await;
    let world = &fixture.world;
    let machines = world.create_machine_rows(count).await;
    let requests = Arc::new(AtomicUsize::new(0));
    let client = fake_api_server::client(world, machines, Arc::clone(&requests)).await;
    let (Parts { sweeper, .. }, cache) = wire(world.pool(), client, TIMEOUT);
    let _running = run_cache(&cache);
    warm(&sweeper, &cache).await;
    let case = options.case(&fixture, name, count);
    for round in case.rounds() {
        round.measure(Way::Baseline, scan(world.pool(), count)).await;
        let before = requests.load(Ordering::Relaxed);
        let sweep = sweep(&sweeper, count);
        let sent = || requests.load(Ordering::Relaxed) - before;
        round.measure_counted(Way::Ours, sweep, |counts| counts.with_requests(sent())).await;
    }
}

/// Sweeps once and waits for the cache to be warm.
async fn warm(sweeper: &Sweeper, cache: &Cache) {
    sweeper.sweep().await.unwrap();
    until("the cache to be warm", || async { cache.identity() }).await;
}

/// Sweeps and asserts that every resource is settled.
pub(super) async fn sweep(sweeper: &Sweeper, count: usize) {
    let (work, report) = sweeper.sweep().await.unwrap();
    assert!(work.is_empty() && report.settled == count, "a sweep found {work:?}: {report:?}");
}

/// Decodes the rows and discards them.
pub(super) async fn scan(pool: &PgPool, count: usize) {
    let (mut after, mut read) = (Uuid::nil(), 0);
    loop {
        let page = sqlx::query(SCAN).bind(after).bind(PAGE + 1).fetch_all(pool).await.unwrap();
        let rows = page.iter().take(usize::try_from(PAGE).unwrap());
        for row in rows {
            after = decode(row);
            read += 1;
        }
        if page.len() <= usize::try_from(PAGE).unwrap() {
            break;
        }
    }
    assert_eq!(read, count);
}

/// Decodes every column of a row, as the broker does; returns the id.
fn decode(row: &PgRow) -> Uuid {
    let _: OffsetDateTime = row.get(0);
    let ids: [Uuid; 5] = [1, 2, 3, 4, 5].map(|column| row.get(column));
    let _: [String; 3] = [6, 8, 9].map(|column| row.get(column));
    let _: (i64, Option<Uuid>, bool) = (row.get(7), row.get(10), row.get(11));
    let _: (Option<String>, Option<Vec<u8>>) = (row.get(12), row.get(13));
    let _: [Option<OffsetDateTime>; 2] = [14, 15].map(|column| row.get(column));
    let _: bool = row.get(16);
    ids[0]
}

/// The composite resources, through the client without the broker.
pub(super) fn composites(fixture: &Fixture) -> Api<DynamicObject> {
    let xrd = fixture.world.kinds.xrd_of(NODE);
    fixture.world.composites_of(&fixture.bare_client, &xrd)
}

/// Reads the rows, and then the composite resources one by one.
pub(super) async fn get_each(
    world: &RealWorld,
    composites: &Api<DynamicObject>,
    machines: &[Machine],
) {
    scan(world.pool(), machines.len()).await;
    for machine in machines {
        let found = composites.get(XrName::of(machine.id).as_str()).await.unwrap();
        assert!(found.data["status"]["conditions"].is_array(), "{} is not ready", found.name_any());
    }
}
