//! Real Crossplane behaves as the committed histories say, which the simulated cluster must also
//! match.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_render::namespace;
use broker_tests::TestCluster;
use broker_tests::collector::wait_until_collected;
use broker_tests::crossplane::{Change, Lifetime, Recording, Requests, port, provider_configs};
use kube::ResourceExt;
use serde_json::Value;
use uuid::Uuid;

use super::is_ready;

const LOOK: Duration = Duration::from_millis(50);
/// Ten minutes of polling, longer than any lifetime takes.
const MOST_LOOKS: usize = 10 * 60 * 20;

/// `BROKER_BLESS=1` writes the histories instead of comparing them.
#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_life_matches_its_history() {
    // A busy Crossplane reports delays in states that an idle one does not have.
    let crossplane = TestCluster::with_crossplane_alone().await;
    // The collector determines the order of deletion.
    wait_until_collected(&crossplane.admin, crossplane.namespace().await.name()).await;
    let lives = Lifetime::recorded().into_iter().map(async |(blueprint, parameters)| {
        let project = Uuid::now_v7().try_into().unwrap();
        let home = crossplane.namespace_named(namespace(project).as_str()).await;
        let port = port(&crossplane.broker_in(home.name()).await);
        let requests = Requests::new(&blueprint, project, parameters);
        let admin = &crossplane.admin;
        let kinds = vec![
            blueprint.composites(admin, home.name()),
            blueprint.composed(admin, home.name()),
            provider_configs(admin, home.name()),
        ];
        let recording = Recording::of(kinds).await;
        let name = requests.xr().name().to_owned();
        let looks = AtomicUsize::new(0);
        let look = async || {
            tokio::time::sleep(LOOK).await;
            let heard = recording.heard(|object| object.name_any().starts_with(&name));
            let so_far = looks.fetch_add(1, Ordering::Relaxed);
            assert!(so_far < MOST_LOOKS, "{} is stuck: {:#?}", blueprint.slug, heard.last());
            let plain = |object| serde_json::to_value(object).unwrap();
            heard.into_iter().map(|change| (plain(change.object), change.gone)).collect()
        };
        let crossings = if blueprint.slug == "sample-spot" { 2 } else { 1 };
        let life = Lifetime::live(&port, &requests, crossings, look).await;
        assert_ready_last(&name, &recording.heard(|object| object.name_any().starts_with(&name)));
        (blueprint.slug, life)
    });
    let bless = std::env::var_os("BROKER_BLESS").is_some();
    for (slug, life) in futures::future::join_all(lives).await {
        let path = Lifetime::path(&slug);
        if bless {
            fs::write(&path, serde_json::to_string_pretty(&life).unwrap() + "\n").unwrap();
            continue;
        }
        let known: Lifetime = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if let Some(contradiction) = known.contradiction(&life) {
            panic!("{slug}: {contradiction}");
        }
    }
}

/// A composite resource is ready after the last of its parts, and names the unready ones until
/// then.
fn assert_ready_last(name: &str, heard: &[Change]) {
    let first_ready = |of: &str| {
        heard.iter().position(|change| change.object.name_any() == of && is_ready(&change.object))
    };
    let before = &heard[..first_ready(name).unwrap()];
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
        .filter(|one| one["type"] == "Ready")
        .filter_map(|one| one["message"].as_str())
        .collect();
    assert!(parts.len() < 2 || unready.len() >= 2, "{parts:?} all at once: {unready:?}");
}
