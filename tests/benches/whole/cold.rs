//! The first sweep of a replica that has just started: N machines are Ready, and its cache knows nothing yet.
//!
//! The floor lists the same objects by the same pages, and reads the same rows. The naive way asks the API server for
//! each.

use broker_embed::Parts;
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL};
use broker_tests::real::{PATIENCE, wire};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};

use super::lab::{Lab, Way};
use super::stand::{Stand, run_cache};
use super::sweep::{ask_for_each, composites, scan, sweep};

/// As many objects as the broker lists at a time.
const PAGE: u32 = 500;

pub(super) async fn run(lab: Lab) {
    for (name, many) in [("100", 100), ("1,000", 1_000), ("10,000", 10_000)] {
        Box::pin(on_real_servers(lab, name, lab.many(many))).await;
    }
}

async fn on_real_servers(lab: Lab, name: &str, many: usize) {
    let stand = Stand::new().await;
    let world = &stand.world;
    let machines = world.furnish(many).await;
    let composites = composites(&stand);
    let client = world.cluster.identity(&world.user).await;
    let case = lab.case(&stand, name, many);
    for round in case.rounds() {
        round.measure(Way::Floor, list_and_scan(&stand, many)).await;
        round.measure(Way::Ours, start_and_sweep(&stand, client.clone(), many)).await;
        round.measure(Way::Naive, ask_for_each(world, &composites, &machines)).await;
    }
}

/// A replica starts, and sweeps once.
async fn start_and_sweep(stand: &Stand, client: Client, many: usize) {
    let (Parts { sweeper, .. }, cache) = wire(stand.world.pool(), client, PATIENCE);
    let _running = run_cache(&cache);
    // The cache has begun when it is first asked.
    tokio::task::yield_now().await;
    sweep(&sweeper, many).await;
}

async fn list_and_scan(stand: &Stand, many: usize) {
    let world = &stand.world;
    assert_eq!(list(&composites(stand)).await, many);
    let mut parameters = ours();
    let configs = world.configs(&stand.bare);
    let mut read = 0;
    loop {
        let page = configs.list_metadata(&parameters).await.unwrap();
        read += page.items.len();
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => parameters = ours().continue_token(&next),
            Some(_) | None => break,
        }
    }
    assert_eq!(read, many);
    scan(world.pool(), many).await;
}

/// How many there are, all of them read.
async fn list(objects: &Api<DynamicObject>) -> usize {
    let (mut parameters, mut read) = (ours(), 0);
    loop {
        let page = objects.list(&parameters).await.unwrap();
        read += page.items.len();
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => parameters = ours().continue_token(&next),
            Some(_) | None => break read,
        }
    }
}

fn ours() -> ListParams {
    ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}")).limit(PAGE)
}
