//! The simulated cluster reacts to the requests of every recorded lifetime as real Crossplane did.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use broker_domain::ClusterId;
use broker_memory::{Behaviour, KindScope, ManualClock, MemoryCluster};
use broker_ports::Presence;
use broker_render::catalog::ComposedKind;
use broker_render::namespace;
use broker_tests::crossplane::{Blueprint, Lifetime, PROVIDER, Requests};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

/// More ticks than any lifetime takes.
const MAX_TICKS: usize = 100;

#[tokio::test]
async fn simulated_cluster_matches_every_recorded_lifetime() {
    let recorded = Lifetime::recorded();
    let committed = fs::read_dir(Lifetime::path("any").parent().unwrap()).unwrap().count();
    assert_eq!(committed, recorded.len(), "one committed file per recorded lifetime");
    for (blueprint, parameters) in recorded {
        let text = fs::read_to_string(Lifetime::path(&blueprint.slug)).unwrap();
        let real: Lifetime = serde_json::from_str(&text).unwrap();
        let simulated = simulate(&blueprint, parameters).await;
        assert_eq!(
            serde_json::to_string_pretty(&simulated).unwrap() + "\n",
            serde_json::to_string_pretty(&real).unwrap() + "\n",
            "{}",
            blueprint.slug
        );
    }
}

async fn simulate(blueprint: &Blueprint, parameters: &str) -> Lifetime {
    let clock = Arc::new(ManualClock::at(OffsetDateTime::UNIX_EPOCH));
    let cluster = MemoryCluster::new(clock, ClusterId::new("simulated").unwrap());
    let project = Uuid::from_u128(7).try_into().unwrap();
    cluster.create_namespace(namespace(project).as_str());
    let provider = format!("{PROVIDER}.crossplane.io/v1beta1");
    cluster.install_kind(&provider, "ProviderConfig", KindScope::Namespaced);
    let xrd = Arc::new(blueprint.catalog_blueprint().xrd);
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
    let ticks = std::sync::atomic::AtomicUsize::new(0);
    let tick_and_list = async || {
        let earlier_ticks = ticks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(earlier_ticks < MAX_TICKS, "{} is stuck", blueprint.slug);
        cluster.tick();
        let versions = cluster.versions().into_iter();
        versions.map(|one| (one.object, one.presence == Presence::Gone)).collect()
    };
    let crossings = if blueprint.slug == "sample-spot" { 2 } else { 1 };
    Lifetime::run(&cluster, &requests, crossings, tick_and_list).await
}

/// A Composition's composed objects, their readiness, and its declared failure.
fn behaviour(blueprint: &Blueprint, parameters: &str) -> (Behaviour, BTreeSet<(String, String)>) {
    let resources = blueprint.composition().pointer("/spec/pipeline/0/input/resources");
    let resources = resources.and_then(Value::as_array).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let condition_count = |resource: &Value| {
        resource.pointer("/base/spec/forProvider/conditionAfter").unwrap().as_array().unwrap().len()
    };
    let kinds: Vec<_> = resources
        .iter()
        .map(|resource| (text(&resource["base"]["apiVersion"]), text(&resource["base"]["kind"])))
        .collect();
    let behaviour = match resources.as_slice() {
        [one] if condition_count(one) > 1 => Behaviour::flapping(2, 2, 2),
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
        .with_object_names(resources.iter().map(|resource| text(&resource["name"])));
    (behaviour, kinds.into_iter().collect())
}
