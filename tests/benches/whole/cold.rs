//! A sweep of N machines that are Ready while nobody runs the cache: everything has to be listed. The floor reads the
//! same rows and the same lists by the same pages; the naive way asks the API server for each.

use broker_tests::world::NODE;
use http::Request;
use kube::Client;
use serde_json::Value;

use super::lab::{Lab, Way};
use super::stand::Stand;
use super::sweep::{ask_for_each, composites, scan, sweep};

/// As many objects as the broker lists at a time.
const PAGE: usize = 500;

pub(super) async fn run(lab: Lab) {
    for (name, many) in [("100", 100), ("1,000", 1_000), ("10,000", 10_000)] {
        let many = lab.many(many);
        let stand = Stand::new().await;
        let world = &stand.world;
        let machines = world.furnish(many).await;
        let composites = composites(&stand);
        let case = lab.case(&stand, name, many);
        for round in case.rounds() {
            round.measure(Way::Floor, read_all(&stand, many)).await;
            round.measure(Way::Ours, sweep(&world.sweeper, many)).await;
            round.measure(Way::Naive, ask_for_each(world, &composites, &machines)).await;
        }
    }
}

/// The rows, the composite resources and the ProviderConfigs.
async fn read_all(stand: &Stand, many: usize) {
    scan(stand.world.pool(), many).await;
    let xrd = stand.world.kinds.xrd_of(NODE);
    let composites = format!("/apis/{}/{}", xrd.api_version(), xrd.plural());
    let configs = format!("/apis/{}/v1beta1/providerconfigs", stand.world.kinds.provider_group());
    for path in [composites, configs] {
        assert_eq!(list(&stand.bare, &path).await, many);
    }
}

async fn list(client: &Client, path: &str) -> usize {
    let (mut read, mut after) = (0, String::new());
    loop {
        let page = format!("{path}?limit={PAGE}&continue={after}");
        let page = client.request::<Value>(Request::get(page).body(Vec::new()).unwrap());
        let page = page.await.unwrap();
        read += page["items"].as_array().map_or(0, Vec::len);
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => next.clone_into(&mut after),
            Some(_) | None => return read,
        }
    }
}
