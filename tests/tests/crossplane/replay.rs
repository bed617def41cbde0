//! Real Crossplane matches the committed histories, as the simulated cluster must.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_render::namespace;
use broker_tests::TestCluster;
use broker_tests::collector::wait_until_collector_knows_kinds;
use broker_tests::crossplane::{
    Change, Lifetime, Recording, Requests, cluster_port, provider_configs,
};
use kube::ResourceExt;
use serde_json::Value;
use uuid::Uuid;

use super::is_ready;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Ten minutes of polling, longer than any lifetime takes.
const MAX_POLLS: usize = 10 * 60 * 20;

/// `BROKER_BLESS=1` writes the histories instead of comparing them.
#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_lifetime_matches_its_history() {
    // A busy Crossplane reports delays in states that an idle one does not have.
    let crossplane = TestCluster::with_exclusive_crossplane().await;
    // The collector determines the order of deletion.
    wait_until_collector_knows_kinds(&crossplane.admin, crossplane.namespace().await.name()).await;
    let resources = Lifetime::recorded().into_iter().map(async |(blueprint, parameters)| {
        let project = Uuid::now_v7().try_into().unwrap();
        let namespace = crossplane.namespace_named(namespace(project).as_str()).await;
        let port = cluster_port(&crossplane.broker_for_namespace(namespace.name()).await);
        let requests = Requests::new(&blueprint, project, parameters);
        let admin = &crossplane.admin;
        let kinds = vec![
            blueprint.composites(admin, namespace.name()),
            blueprint.composed(admin, namespace.name()),
            provider_configs(admin, namespace.name()),
        ];
        let recording = Recording::start(kinds).await;
        let name = requests.xr().name().to_owned();
        let polls = AtomicUsize::new(0);
        let poll = async || {
            tokio::time::sleep(POLL_INTERVAL).await;
            let changes = recording.changes(|object| object.name_any().starts_with(&name));
            let so_far = polls.fetch_add(1, Ordering::Relaxed);
            assert!(so_far < MAX_POLLS, "{} is stuck: {:#?}", blueprint.slug, changes.last());
            let plain = |object| serde_json::to_value(object).unwrap();
            changes.into_iter().map(|change| (plain(change.object), change.deleted)).collect()
        };
        let ready_times = if blueprint.slug == "sample-spot" { 2 } else { 1 };
        let resource = Lifetime::run(&port, &requests, ready_times, poll).await;
        assert_ready_last(&name, &recording.changes(|object| object.name_any().starts_with(&name)));
        (blueprint.slug, resource)
    });
    let bless = std::env::var_os("BROKER_BLESS").is_some();
    for (slug, resource) in futures::future::join_all(resources).await {
        let path = Lifetime::path(&slug);
        if bless {
            fs::write(&path, serde_json::to_string_pretty(&resource).unwrap() + "\n").unwrap();
            continue;
        }
        let known: Lifetime = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if let Some(contradiction) = known.contradiction(&resource) {
            panic!("{slug}: {contradiction}");
        }
    }
}

/// A composite resource is ready after the last of its parts, and names the unready ones until
/// then.
fn assert_ready_last(name: &str, changes: &[Change]) {
    let first_ready = |of: &str| {
        changes.iter().position(|change| change.object.name_any() == of && is_ready(&change.object))
    };
    let before = &changes[..first_ready(name).unwrap()];
    let names = before.iter().map(|change| change.object.name_any());
    let parts: BTreeSet<String> = names.filter(|other| other != name).collect();
    for part in &parts {
        let ready = first_ready(part).is_some_and(|ready| ready < before.len());
        assert!(ready, "{name} was ready before {part}");
    }
    let of_xr = before.iter().filter(|change| change.object.name_any() == name);
    let conditions = of_xr.filter_map(|change| change.object.data.pointer("/status/conditions"));
    let conditions = conditions.filter_map(Value::as_array).flatten();
    let unready: BTreeSet<&str> = conditions
        .filter(|condition| condition["type"] == "Ready")
        .filter_map(|condition| condition["message"].as_str())
        .collect();
    assert!(parts.len() < 2 || unready.len() >= 2, "{parts:?} all at once: {unready:?}");
}
