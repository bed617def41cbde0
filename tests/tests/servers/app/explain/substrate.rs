//! What Crossplane and the provider say, on objects that really stand.

use std::time::Duration;

use broker_app::explain::{Budgets, Party, Verdict};
use broker_domain::{ObjectReference, Phase, ProvisionedResource};
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::world::{NODE, SIZED};
use serde_json::{Value, json};

use super::{assert_goes_on, assert_names_provider, assert_told};

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// A resource that is composed and not ready, with the object that it composed.
async fn composing(world: &RealWorld) -> (ProvisionedResource, ObjectReference) {
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    world.crossplane.behave_for(declared.id(), Behaviour::NeverReady);
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    world.round(resource.id()).await.unwrap();
    world.round(resource.id()).await.unwrap();
    let resource = world.get(resource.id()).await;
    let part = resource.substrate().composed().iter().next().unwrap().clone();
    (resource, part)
}

/// A provider that mended everything, and the verdict after that.
async fn mended(world: &RealWorld, resource: &ProvisionedResource, part: &ObjectReference) {
    world.say(part, &json!([condition("Ready", "True", "Available", "")])).await;
    world.crossplane.behave_for(resource.id(), Behaviour::Ready);
    world.until(resource.id(), Phase::Ready).await;
    assert_goes_on(&world.explain(resource.id()).await);
}

#[tokio::test]
async fn what_providers_say_is_told_with_the_object_that_they_say_it_about() {
    let world = RealWorld::new().await;
    let rows = [
        ("image \"x\" not found", Verdict::ComposedNotReady, Party::Cloud, "mend_composed"),
        ("quota exceeded for servers", Verdict::QuotaExceeded, Party::Cloud, "raise_quota"),
        (
            "cannot get credentials: Secret \"c\" not found",
            Verdict::ProviderSecretMissing,
            Party::Platform,
            "restore_secret",
        ),
        (
            "connect failed: ProviderConfig \"p\" not found",
            Verdict::ProviderConfigMissing,
            Party::Platform,
            "mend_provider_config",
        ),
    ];
    let (resource, part) = composing(&world).await;
    for (message, verdict, party, action) in rows {
        world.say(&part, &json!([condition("Synced", "False", "ReconcileError", message)])).await;
        let explained = world.explain(resource.id()).await;
        assert_told(&explained, verdict, party, action);
        let blocker = explained.blocker.unwrap();
        assert_eq!(blocker.object, Some(part.clone()));
        assert_eq!(blocker.message.as_deref(), Some(message));
    }
    mended(&world, &resource, &part).await;
}

#[tokio::test]
async fn silence_and_slowness_are_told_once_their_time_is_over() {
    let world = RealWorld::new().await;
    let (resource, part) = composing(&world).await;
    let id = resource.id();
    assert_told(&world.explain(id).await, Verdict::Provisioning, Party::Nobody, "wait");

    let mut impatient = Budgets::default();
    impatient.provider_silence = Duration::ZERO;
    let silent = world.explain_within(id, impatient).await;
    assert_names_provider(&silent, "Part", &world.kinds.group());
    assert_told(&silent, Verdict::ProviderSilent, Party::Platform, "start_provider");

    impatient.provisioning = Duration::ZERO;
    world.say(&part, &json!([condition("Ready", "False", "Creating", "")])).await;
    let slow = world.explain_within(id, impatient).await;
    assert_told(&slow, Verdict::ComposedNotReady, Party::Cloud, "mend_composed");
    world.say(&part, &json!([condition("Ready", "True", "Available", "")])).await;
    let forgotten = world.explain_within(id, impatient).await;
    assert_told(&forgotten, Verdict::CompositeNotReady, Party::Platform, "mend_composition");
    mended(&world, &resource, &part).await;
}

#[tokio::test]
async fn what_happens_to_a_composite_resource_is_told() {
    let world = RealWorld::new().await;
    let (resource, part) = composing(&world).await;
    let (id, xr) = (resource.id(), world.xr(&resource));

    let failing = condition("Synced", "False", "ReconcileError", "cannot compose: no function");
    world.say(&xr, &json!([failing])).await;
    let explained = world.explain(id).await;
    assert_told(&explained, Verdict::FunctionFailing, Party::Platform, "mend_composition");
    assert_eq!(explained.blocker.unwrap().object, Some(xr.clone()));

    let pause =
        |paused: Value| json!({"metadata": {"annotations": {"crossplane.io/paused": paused}}});
    world.change(&xr, &pause(json!("true"))).await;
    let paused = world.explain(id).await;
    assert_told(&paused, Verdict::PausedOnCluster, Party::Platform, "unpause");
    world.change(&xr, &pause(Value::Null)).await;

    let composition =
        |name: &str| json!({"spec": {"crossplane": {"compositionRef": {"name": name}}}});
    world.change(&xr, &composition("another")).await;
    let foreign = world.explain(id).await;
    assert_told(&foreign, Verdict::CompositionForeign, Party::Platform, "pin_composition");
    world.change(&xr, &composition("machines")).await;

    let armed = |with: Value| json!({"metadata": {"annotations": {"plexsphere.io/armed": with}}});
    world.change(&xr, &armed(json!("00000000-0000-0000-0000-00000000beef"))).await;
    let foreign = world.explain(id).await;
    assert_told(&foreign, Verdict::ArmingForeign, Party::Platform, "delete_composite");
    world.crossplane.delete_by_hand(id).await;
    assert_goes_on(&world.explain(id).await);
    world.crossplane.behave_for(id, Behaviour::Ready);
    world.until(id, Phase::Ready).await;
    drop(part);

    world.say(&xr, &json!([condition("Ready", "True", "Available", ""), failing])).await;
    assert_told(&world.explain(id).await, Verdict::Degraded, Party::Platform, "mend_composition");
    world.turn().await;
    assert_told(&world.explain(id).await, Verdict::Ready, Party::Nobody, "wait");

    world.crossplane.deletes.store(false, std::sync::atomic::Ordering::Relaxed);
    let (api, name) = world.object(&xr);
    api.delete(&name, &kube::api::DeleteParams::background()).await.unwrap();
    let going = world.explain(id).await;
    assert_told(&going, Verdict::CompositeBeingDeleted, Party::Nobody, "wait");
    world.crossplane.deletes.store(true, std::sync::atomic::Ordering::Relaxed);
    world.turn().await;
    let missing = world.explain(id).await;
    assert_told(&missing, Verdict::CompositeMissing, Party::Nobody, "wait");
    world.until(id, Phase::Ready).await;
}

#[tokio::test]
async fn somebody_who_writes_our_fields_is_named() {
    let world = RealWorld::new().await;
    let declared = world.declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let declared = world.declare(&declared).await.unwrap();
    world.crossplane.behave_for(declared.id(), Behaviour::NeverReady);
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    let xr = world.xr(&resource);
    world.change(&xr, &json!({"spec": {"parameters": {"size": "huge"}}})).await;
    let explained = world.explain(resource.id()).await;
    assert_told(&explained, Verdict::OwnershipConflict, Party::Platform, "stop_rivals");
    assert!(explained.action.to_string().contains("kubectl"), "{explained}");
    // Whoever it was stopped: the broker's own apply settles it.
    world.crossplane.behave_for(resource.id(), Behaviour::Ready);
    world.until(resource.id(), Phase::Ready).await;
    assert_goes_on(&world.explain(resource.id()).await);
}
