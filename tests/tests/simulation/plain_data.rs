//! Blueprints that compose unreadable objects: Secrets, ConfigMaps, and kinds without a role.

use broker_app::explain::Verdict;
use broker_domain::{EventType, ObjectReference, Phase, ProvisionedResource};
use broker_memory::{Behaviour, KindScope, Verb};
use broker_render::catalog::ComposedKind;
use broker_tests::world::{STANDALONE, World, declaration, operator, xrd_of};

const NOP: (&str, &str) = ("nop.crossplane.io/v1alpha1", "NopResource");
const SECRET: (&str, &str) = ("v1", "Secret");
const UNLISTED: (&str, &str) = ("other.example.org/v1", "Disk");

/// A world whose buckets compose these kinds. The broker may read only the first.
fn world_composing(kinds: &[(&str, &str)]) -> World {
    let world = World::new();
    let composed = kinds.iter().map(|(api_version, kind)| ComposedKind {
        api_version: (*api_version).to_owned(),
        kind: (*kind).to_owned(),
    });
    let behaviour = Behaviour::ready_after(1).composing_kinds(composed).finalizing_after(2);
    world.cluster.behave(&xrd_of("Bucket", "buckets"), behaviour);
    for (api_version, kind) in &kinds[1..] {
        world.cluster.install_kind(api_version, kind, KindScope::Namespaced);
        world.cluster.forbid(Verb::Get, kind);
        world.cluster.forbid(Verb::List, kind);
    }
    world
}

async fn deleted_event_names_leftovers(world: &World) -> bool {
    // The relay delivers one event per resource at a time.
    for _ in 0..8 {
        world.relay().deliver_batch().await.unwrap();
    }
    let last = world.sink.deliveries().pop().unwrap();
    assert_eq!(last.event_type, EventType::Deleted);
    String::from_utf8(last.json).unwrap().contains(r#""left_to_garbage_collection":true"#)
}

async fn declare_and_deprovision(world: &World) -> ProvisionedResource {
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    ready
}

#[tokio::test]
async fn composed_secret_is_never_read() {
    let world = world_composing(&[NOP, SECRET]);
    let ready = declare_and_deprovision(&world).await;
    let kinds: Vec<_> = ready.substrate().composed().iter().map(ObjectReference::kind).collect();
    assert_eq!(kinds, ["NopResource", "Secret"], "both are recorded");
    let deleted = world.until(ready.id(), Phase::Deleted).await;
    assert!(deleted.substrate().composed().is_empty());
    assert!(!deleted_event_names_leftovers(&world).await);
    assert_eq!(world.existing_objects(), []);
}

#[tokio::test]
async fn foreign_background_deletion_becomes_a_foreground_one() {
    let world = world_composing(&[NOP, SECRET]);
    let ready = declare_and_deprovision(&world).await;
    let xr = world.xr(&ready);
    world.cluster.add_finalizer(&xr, "example.org/held");
    world.cluster.delete_in_background(&xr);
    let deletions = world.cluster.requests(Verb::Delete);
    for _ in 0..4 {
        world.round(ready.id()).await.unwrap();
    }
    assert_eq!(world.cluster.requests(Verb::Delete), deletions + 1, "one deletion, and no second");
    world.cluster.remove_finalizer(&xr, "example.org/held");
    world.until(ready.id(), Phase::Deleted).await;
    assert!(!deleted_event_names_leftovers(&world).await);
    assert_eq!(world.existing_objects(), []);
}

#[tokio::test]
async fn secret_without_observed_foreground_deletion_is_reported() {
    let world = world_composing(&[NOP, SECRET]);
    let ready = declare_and_deprovision(&world).await;
    let secret = ready.substrate().plain_data().next().unwrap().clone();
    world.cluster.add_finalizer(&secret, "example.org/held");
    world.cluster.delete_in_background(&world.xr(&ready));
    world.cluster.settle(5);
    world.until(ready.id(), Phase::Deleted).await;
    assert!(world.cluster.exists(&secret), "the Secret outlives its owner");
    assert!(deleted_event_names_leftovers(&world).await);
    let explained = world.explain(ready.id()).await;
    assert_eq!(explained.verdict, Verdict::Deleted);
    let message = explained.blocker.unwrap().message.unwrap();
    assert_eq!(message, format!("left to garbage collection: {secret}"));
}

/// A Secret belongs to the composite resource that composed it. The deletion of the next one proves
/// nothing about it.
#[tokio::test]
async fn secret_of_a_lost_xr_is_not_proven_gone_by_the_next_one() {
    let world = world_composing(&[NOP, SECRET]);
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    let secret = ready.substrate().plain_data().next().unwrap().clone();
    world.cluster.add_finalizer(&secret, "example.org/held");
    world.cluster.delete_in_background(&world.xr(&ready));
    world.cluster.settle(5);
    world.until(ready.id(), Phase::Provisioning).await;
    world.until(ready.id(), Phase::Ready).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.until(ready.id(), Phase::Deleted).await;
    assert!(world.cluster.exists(&secret));
    assert!(deleted_event_names_leftovers(&world).await);
}

#[tokio::test]
async fn unlisted_kind_blocks_teardown_only_and_is_named() {
    let world = world_composing(&[NOP, UNLISTED]);
    let ready = declare_and_deprovision(&world).await;
    for _ in 0..4 {
        drop(world.round(ready.id()).await);
    }
    assert_ne!(world.get(ready.id()).await.phase(), Phase::Deleted);
    let explained = world.explain(ready.id()).await;
    assert_eq!(explained.verdict, Verdict::Forbidden, "{explained}");
    let blocker = explained.blocker.unwrap();
    assert_eq!(blocker.object.unwrap().kind(), "Disk");
    let message = blocker.message.unwrap();
    assert!(message.contains("do not list Disk (other.example.org/v1)"), "{message}");
    assert!(message.contains("plexsphere-provisioning-broker-reader"), "{message}");

    world.cluster.allow_everything();
    world.until(ready.id(), Phase::Deleted).await;
    assert_eq!(world.existing_objects(), []);
}
