//! What others see of a change, and when; and what the cluster does to whoever asks.

use broker_domain::ProvisionedResourceId;
use broker_memory::{Behaviour, HintDelivery, Verb};
use broker_ports::{CachedXr, Cluster as _, FailureClass, Hints};
use broker_render::MANAGED_BY_LABEL;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

use crate::resource::Resource;

/// The hints that have arrived.
fn arrived(hints: &mut Hints) -> Vec<ProvisionedResourceId> {
    std::iter::from_fn(|| hints.next().now_or_never().flatten()).collect()
}

#[tokio::test]
async fn hints_travel_as_they_are_told() {
    let rows = [
        (HintDelivery::Prompt, 1, 1),
        (HintDelivery::Late, 0, 1),
        (HintDelivery::Doubled, 2, 2),
        (HintDelivery::Lost, 0, 0),
    ];
    for (delivery, at_once, in_the_end) in rows {
        let resource = Resource::standalone(Behaviour::ready_after(0));
        resource.cluster.deliver_hints(delivery);
        let mut hints = resource.cluster.hints().await.unwrap();
        resource.shell().await;
        let first = arrived(&mut hints);
        assert_eq!(first, vec![resource.id(); at_once], "{delivery:?}");
        resource.cluster.release_hints();
        let total = first.len() + arrived(&mut hints).len();
        assert_eq!(total, in_the_end, "{delivery:?}");
        resource.cluster.end_hints();
        assert_eq!(hints.next().await, None, "hints end with their watch");
    }
}

#[tokio::test]
async fn a_seed_repeats_its_luck() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let resource = Resource::standalone(Behaviour::ready_after(0));
        resource.cluster.deliver_hints(HintDelivery::Seeded(seed));
        let mut hints = resource.cluster.hints().await.unwrap();
        for number in 1..40 {
            resource.neighbour(number).shell().await;
        }
        runs.push(arrived(&mut hints));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

async fn observed(resource: &Resource) -> CachedXr {
    let mut seen = resource.cluster.observe_many(&[resource.xr_target()]).await.unwrap();
    seen.remove(0).unwrap()
}

#[tokio::test]
async fn what_lost_our_label_gives_no_hint_and_is_not_in_the_cache() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.shell().await;
    let strip = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    resource.cluster.patch_as("kubectl", &resource.reference(), &strip);
    let mut hints = resource.cluster.hints().await.unwrap();
    resource.cluster.pause(&resource.reference());
    resource.cluster.hold(&resource.reference(), "held");
    assert!(arrived(&mut hints).is_empty());
    assert_eq!(observed(&resource).await, CachedXr::Absent);
    resource.live().await;
}

#[tokio::test]
async fn a_cache_lags_until_it_catches_up() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    let shell = resource.shell().await;
    resource.cluster.freeze_cache();
    let armed = resource.arm(&shell).await;
    for expected in [&shell, &armed] {
        let seen = observed(&resource).await;
        assert!(matches!(&seen, CachedXr::Seen { version, .. } if version == expected), "{seen:?}");
        assert_eq!(resource.live().await.object.version(), &armed, "a read is live");
        resource.cluster.catch_up_cache();
    }
    resource.cluster.miss_in_cache(&resource.reference());
    assert_eq!(observed(&resource).await, CachedXr::Absent);
    resource.live().await;
}

#[tokio::test]
async fn what_is_down_or_forbidden_changes_nothing() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.shell().await;
    let cluster = &resource.cluster;
    cluster.take_down();
    let error = cluster.read(&resource.target()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Transient);
    assert!(cluster.inspect(&resource.target()).await.is_err());
    assert!(cluster.hints().await.is_err());
    cluster.bring_back();
    resource.live().await;
    cluster.forbid(Verb::List, "NopResource");
    let error = cluster.read(&resource.target()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Rejected);
    assert!(error.to_string().starts_with("list NopResource"), "{error}");
    cluster.allow_everything();
    resource.live().await;
}

#[tokio::test]
async fn requests_are_counted() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.apply_config().await;
    resource.start().await;
    assert_eq!(resource.cluster.writes(), 3, "ProviderConfig, shell, arm");
    let before = resource.cluster.requests(Verb::Get);
    observed(&resource).await;
    assert_eq!(resource.cluster.requests(Verb::Get), before, "a cache asks nobody");
    resource.live().await;
    assert!(resource.cluster.requests(Verb::Get) > before);
}
