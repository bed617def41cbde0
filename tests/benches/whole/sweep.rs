//! A sweep of N machines that are Ready, with a warm cache: nothing is to be done, and nothing should be done.
//!
//! The floor reads the same columns of the same rows by the same pages. The naive way asks the API server for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker_app::Sweeper;
use broker_domain::XrName;
use broker_embed::Parts;
use broker_kube::cache::Cache;
use broker_tests::real::{Machine, PATIENCE, RealWorld, wire};
use broker_tests::until;
use broker_tests::world::NODE;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use sqlx::postgres::PgRow;
use sqlx::types::time::OffsetDateTime;
use sqlx::{PgPool, Row};
use uuid::Uuid;

use super::lab::{Lab, Way};
use super::played;
use super::stand::{Stand, run_cache};

/// As many rows as the broker reads at a time.
const PAGE: i64 = 1_000;

/// What a sweep has to know of each row.
const SCAN: &str = "SELECT statement_timestamp() AS now, r.id, r.project_id, r.resource_id, r.blueprint_version_id,
    r.cloud_credential_id, r.status, r.version, r.mesh_role, r.on_failure, r.bootstrap_token_id,
    r.token_closed, r.cluster_id, r.references_digest, s.due_at, s.lease_until, s.paused
FROM plexsphere.provisioned_resources AS r
    JOIN plexsphere.provisioned_resource_schedule AS s ON s.provisioned_resource_id = r.id
WHERE r.status <> 'Deleted' AND (r.status <> 'Failed' OR r.on_failure <> 'retain') AND r.id > $1
    AND s.provisioned_resource_id > $1
ORDER BY r.id LIMIT $2";

pub(super) async fn run(lab: Lab) {
    for (name, many) in [("100", 100), ("1,000", 1_000), ("10,000", 10_000)] {
        on_real_servers(lab, name, lab.many(many)).await;
    }
    with_cluster_in_memory(lab, "100,000, cluster in memory", lab.many(100_000)).await;
}

async fn on_real_servers(lab: Lab, name: &str, many: usize) {
    let stand = Stand::new().await;
    let world = &stand.world;
    let machines = world.furnish(many).await;
    let _running = world.run_cache();
    warm(&world.sweeper, &world.cache).await;
    let composites = composites(&stand);
    let case = lab.case(&stand, name, many);
    for round in case.rounds() {
        round.measure(Way::Floor, scan(world.pool(), many)).await;
        round.measure(Way::Ours, sweep(&world.sweeper, many)).await;
        round.measure(Way::Naive, ask_for_each(world, &composites, &machines)).await;
    }
}

async fn with_cluster_in_memory(lab: Lab, name: &str, many: usize) {
    let stand = Stand::new().await;
    let world = &stand.world;
    let machines = world.furnish_rows(many).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let client = played::client(world, machines, Arc::clone(&asked)).await;
    let (Parts { sweeper, .. }, cache) = wire(world.pool(), client, PATIENCE);
    let _running = run_cache(&cache);
    warm(&sweeper, &cache).await;
    let case = lab.case(&stand, name, many);
    for round in case.rounds() {
        round.measure(Way::Floor, scan(world.pool(), many)).await;
        let before = asked.load(Ordering::Relaxed);
        let sweep = sweep(&sweeper, many);
        let requests = || asked.load(Ordering::Relaxed) - before;
        round.measure_counted(Way::Ours, sweep, |counted| counted.of_played(requests())).await;
    }
}

/// Sweeps until the cache follows every kind that a sweep asks for.
async fn warm(sweeper: &Sweeper, cache: &Cache) {
    sweeper.sweep().await.unwrap();
    until("the cache to be warm", || async { cache.identity() }).await;
}

/// Looks at everything, and finds nothing to do.
pub(super) async fn sweep(sweeper: &Sweeper, many: usize) {
    let (work, report) = sweeper.sweep().await.unwrap();
    assert!(work.is_empty() && report.settled == many, "a sweep found {work:?}: {report:?}");
}

/// Reads the rows, and makes nothing of them.
pub(super) async fn scan(pool: &PgPool, many: usize) {
    let (mut after, mut read) = (Uuid::nil(), 0);
    loop {
        let page = sqlx::query(SCAN).bind(after).bind(PAGE + 1).fetch_all(pool).await.unwrap();
        let rows = page.iter().take(usize::try_from(PAGE).unwrap());
        for row in rows {
            after = decoded(row);
            read += 1;
        }
        if page.len() <= usize::try_from(PAGE).unwrap() {
            break;
        }
    }
    assert_eq!(read, many);
}

/// Takes every column of a row, as whoever reads it has to.
fn decoded(row: &PgRow) -> Uuid {
    let _: OffsetDateTime = row.get(0);
    let ids: [Uuid; 5] = [1, 2, 3, 4, 5].map(|column| row.get(column));
    let _: [String; 3] = [6, 8, 9].map(|column| row.get(column));
    let _: (i64, Option<Uuid>, bool) = (row.get(7), row.get(10), row.get(11));
    let _: (Option<String>, Option<Vec<u8>>) = (row.get(12), row.get(13));
    let _: [Option<OffsetDateTime>; 2] = [14, 15].map(|column| row.get(column));
    let _: bool = row.get(16);
    ids[0]
}

/// The composite resources, asked for without the broker.
pub(super) fn composites(stand: &Stand) -> Api<DynamicObject> {
    let xrd = stand.world.kinds.xrd_of(NODE);
    stand.world.composites_of(&stand.bare, &xrd)
}

/// Reads the rows, and asks the API server for one after the other.
pub(super) async fn ask_for_each(
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
