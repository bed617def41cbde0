//! The first sweep after a start: N machines are Ready and the cache is empty.
//!
//! The baseline lists the same objects and reads the same rows, in the same pages. The naive way sends one GET per
//! resource.

use broker_embed::Parts;
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL};
use broker_tests::real::{TIMEOUT, wire};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};

use super::fixture::{Fixture, run_cache};
use super::harness::{BenchOptions, Way};
use super::sweep::{composites, get_each, scan, sweep};

/// The broker's page size for lists.
const PAGE: u32 = 500;

pub(super) async fn run(options: BenchOptions) {
    for (name, count) in [("100", 100), ("1,000", 1_000), ("10,000", 10_000)] {
        Box::pin(on_real_servers(options, name, options.size(count))).await;
    }
}

async fn on_real_servers(options: BenchOptions, name: &str, count: usize) {
    let fixture = Fixture::new().await;
    let world = &fixture.world;
    let machines = world.create_machines(count).await;
    let composites = composites(&fixture);
    let client = world.cluster.identity(&world.user).await;
    let case = options.case(&fixture, name, count);
    for round in case.rounds() {
        round.measure(Way::Baseline, list_and_scan(&fixture, count)).await;
        round.measure(Way::Ours, start_and_sweep(&fixture, client.clone(), count)).await;
        round.measure(Way::Naive, get_each(world, &composites, &machines)).await;
    }
}

/// Starts a replica and sweeps once.
async fn start_and_sweep(fixture: &Fixture, client: Client, count: usize) {
    let (Parts { sweeper, .. }, cache) = wire(fixture.world.pool(), client, TIMEOUT);
    let _running = run_cache(&cache);
    // Lets the cache start before the first query.
    tokio::task::yield_now().await;
    sweep(&sweeper, count).await;
}

async fn list_and_scan(fixture: &Fixture, count: usize) {
    let world = &fixture.world;
    assert_eq!(list(&composites(fixture)).await, count);
    let mut parameters = list_params();
    let configs = world.configs(&fixture.bare_client);
    let mut read = 0;
    loop {
        let page = configs.list_metadata(&parameters).await.unwrap();
        read += page.items.len();
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => parameters = list_params().continue_token(&next),
            Some(_) | None => break,
        }
    }
    assert_eq!(read, count);
    scan(world.pool(), count).await;
}

/// Reads every object; returns their number.
async fn list(objects: &Api<DynamicObject>) -> usize {
    let (mut parameters, mut read) = (list_params(), 0);
    loop {
        let page = objects.list(&parameters).await.unwrap();
        read += page.items.len();
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => parameters = list_params().continue_token(&next),
            Some(_) | None => break read,
        }
    }
}

fn list_params() -> ListParams {
    ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}")).limit(PAGE)
}
