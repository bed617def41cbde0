//! The simulated cluster reacts to the requests of every recorded life as real Crossplane did.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use broker_domain::ClusterId;
use broker_memory::{Behaviour, Existence, KindScope, ManualClock, MemoryCluster};
use broker_render::catalog::ComposedKind;
use broker_render::namespace;
use broker_tests::crossplane::{Blueprint, Lifetime, PROVIDER, Requests};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

/// More ticks than any life takes.
const MOST: usize = 100;

#[tokio::test]
async fn simulated_cluster_matches_every_recorded_life() {
    let recorded = Lifetime::recorded();
    let committed = fs::read_dir(Lifetime::path("any").parent().unwrap()).unwrap().count();
    assert_eq!(committed, recorded.len(), "a history for each that is recorded, and no other");
    for (blueprint, parameters) in recorded {
        let text = fs::read_to_string(Lifetime::path(&blueprint.slug)).unwrap();
        let real: Lifetime = serde_json::from_str(&text).unwrap();
        let simulated = live(&blueprint, parameters).await;
        assert_eq!(
            serde_json::to_string_pretty(&simulated).unwrap() + "\n",
            serde_json::to_string_pretty(&real).unwrap() + "\n",
            "{}",
            blueprint.slug
        );
    }
}

async fn live(blueprint: &Blueprint, parameters: &str) -> Lifetime {
    let clock = Arc::new(ManualClock::at(OffsetDateTime::UNIX_EPOCH));
    let cluster = MemoryCluster::new(clock, ClusterId::new("simulated").unwrap());
    let project = Uuid::from_u128(7).try_into().unwrap();
    cluster.create_namespace(namespace(project).as_str());
    let provider = format!("{PROVIDER}.crossplane.io/v1beta1");
    cluster.install_kind(&provider, "ProviderConfig", KindScope::Namespaced);
    let xrd = Arc::new(blueprint.checked().xrd);
    cluster.install_xrd(&xrd);
    let (behaviour, kinds) = behaviour(blueprint, parameters);
    for (api_version, kind) in kinds {
        let scope =
            if kind.starts_with("Cluster") { KindScope::Cluster } else { KindScope::Namespaced };
        cluster.install_kind(&api_version, &kind, scope);
    }
    cluster.behave(&xrd, behaviour);
    cluster.keep_versions();
    let requests = Requests::new(blueprint, project, parameters);
    let looks = std::sync::atomic::AtomicUsize::new(0);
    let look = async || {
        let so_far = looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(so_far < MOST, "{} is stuck", blueprint.slug);
        cluster.tick();
        let versions = cluster.versions().into_iter();
        versions.map(|one| (one.object, one.standing == Existence::Gone)).collect()
    };
    let crossings = if blueprint.slug == "sample-spot" { 2 } else { 1 };
    Lifetime::live(&cluster, &requests, crossings, look).await
}

/// A Composition's composed objects, their readiness, and its declared failure.
fn behaviour(blueprint: &Blueprint, parameters: &str) -> (Behaviour, BTreeSet<(String, String)>) {
    let resources = blueprint.composition().pointer("/spec/pipeline/0/input/resources");
    let resources = resources.and_then(Value::as_array).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let after = |resource: &Value| {
        resource.pointer("/base/spec/forProvider/conditionAfter").unwrap().as_array().unwrap().len()
    };
    let kinds: Vec<_> = resources
        .iter()
        .map(|resource| (text(&resource["base"]["apiVersion"]), text(&resource["base"]["kind"])))
        .collect();
    let behaviour = match resources.as_slice() {
        [one] if after(one) > 1 => Behaviour::flapping(2, 2, 2),
        [_] => Behaviour::ready_after(2),
        _ => Behaviour::one_by_one(2),
    };
    let parameters: Value = serde_json::from_str(parameters).unwrap();
    let behaviour = match parameters["fault"].as_str() {
        Some(fault) => behaviour.declaring_failure(fault),
        None => behaviour,
    };
    let composed =
        kinds.iter().cloned().map(|(api_version, kind)| ComposedKind { api_version, kind });
    let behaviour = behaviour
        .composing_kinds(composed)
        .finalizing_after(0)
        .calling_them(resources.iter().map(|resource| text(&resource["name"])));
    (behaviour, kinds.into_iter().collect())
}
