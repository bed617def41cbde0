//! Convergence paths, including re-creation.

use broker_app::PassResult;
use broker_domain::{Action, MeshRole, Phase};
use broker_memory::Behaviour;
use broker_tests::world::{NODE, SIZED, STANDALONE, World, declaration};
use serde_json::{Value, json};

use super::{count_audited, delete_xr_as_another_party};

pub(super) const PHASES_BY_BLUEPRINT: [(u128, Phase); 7] = [
    (NODE, Phase::Pending),
    (NODE, Phase::Provisioning),
    (NODE, Phase::Enrolling),
    (NODE, Phase::Ready),
    (STANDALONE, Phase::Pending),
    (STANDALONE, Phase::Provisioning),
    (STANDALONE, Phase::Ready),
];

#[tokio::test]
async fn node_becomes_ready_and_enrols() {
    let world = &World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    assert_eq!(declared.phase(), Phase::Pending);
    let ready = world.until(declared.id(), Phase::Ready).await;
    assert!(ready.bootstrap_token_id().is_some());
    assert!(ready.first_ready_at().is_some());
    assert_eq!(ready.substrate().composed().len(), 1);
    let existing = world.existing_objects();
    assert_eq!(existing.len(), 3, "composite resource, ProviderConfig, composed: {existing:?}");

    let settled = world.round(ready.id()).await.unwrap();
    let unchanged =
        PassResult::Completed { action: Action::Noop, from: Phase::Ready, to: Phase::Ready };
    assert_eq!(settled, unchanged);
    assert_eq!(world.get(ready.id()).await.version(), ready.version(), "another pass wrote");
}

#[tokio::test]
async fn standalone_resource_becomes_ready_without_a_token() {
    let world = &World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    assert_eq!(ready.mesh_role(), MeshRole::Standalone);
    assert_eq!(ready.bootstrap_token_id(), None);
    let xr = world.cluster.object(&world.xr(&ready)).unwrap();
    assert_eq!(xr.pointer("/spec/userData"), None, "nothing is injected");
    assert_eq!(count_audited(world, ready.id(), "token_issue").await, 0);
}

#[tokio::test]
async fn required_parameters_are_stored_and_rendered() {
    let world = &World::new();
    let refused = world.declare(&declaration(SIZED)).await.unwrap_err();
    assert_eq!(refused.reason(), "parameter_values_invalid");

    let sized = declaration(SIZED).with_parameters(r#"{"size": "large"}"#);
    let ready = world.declare_until(Phase::Ready, &sized).await;
    assert_eq!(ready.parameters().as_json(), r#"{"count":1,"size":"large"}"#);
    let xr = world.cluster.object(&world.xr(&ready)).unwrap();
    assert_eq!(xr["spec"]["parameters"], json!({"count": 1, "size": "large"}));
}

#[tokio::test]
async fn lost_xr_of_a_node_is_recreated() {
    let world = &World::new();
    assert_lost_xr_is_recreated(world, NODE).await;
}

#[tokio::test]
async fn lost_xr_of_a_standalone_resource_is_recreated() {
    let world = &World::new();
    assert_lost_xr_is_recreated(world, STANDALONE).await;
}

/// Tests one blueprint: each loss takes one of the few permits of its world.
async fn assert_lost_xr_is_recreated(world: &World, blueprint: u128) {
    for (_, phase) in PHASES_BY_BLUEPRINT.into_iter().filter(|(listed, _)| *listed == blueprint) {
        let resource = world.declare_until(phase, &declaration(blueprint)).await;
        let id = resource.id();
        if phase == Phase::Pending {
            // The first pass applies; the row stays Pending until a later pass observes the object.
            world.reconciler.reconcile(id).await.unwrap();
            assert_eq!(world.get(id).await.phase(), Phase::Pending);
        }
        let before = world.cluster.object(&world.xr(&resource)).unwrap();
        delete_xr_as_another_party(world, &resource);
        world.round(id).await.unwrap();
        world.until(id, Phase::Ready).await;
        let after = world.cluster.object(&world.xr(&resource)).unwrap();
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"], "in {phase}");
    }
}

#[tokio::test]
async fn lost_enrolled_node_is_replaced_with_a_new_token() {
    let world = &World::new();
    let first = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    delete_xr_as_another_party(world, &first);
    world.until(first.id(), Phase::Pending).await;
    let second = world.until(first.id(), Phase::Ready).await;
    assert_ne!(second.bootstrap_token_id(), first.bootstrap_token_id());
    assert_eq!(second.token_ordinal().get(), 2);
    let old = first.bootstrap_token_id().unwrap();
    let registered = world.ports.nodes.node_registered(old).await.unwrap();
    assert!(!registered, "the old Node is deregistered before the new one enrols");
    assert_eq!(second.event_sequence(), first.event_sequence() + 1, "Ready was reported again");
}

#[tokio::test]
async fn drift_repair_keeps_the_injected_token() {
    let world = &World::new();
    let waiting = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(waiting.id(), Behaviour::never_ready());
    world.until(waiting.id(), Phase::Provisioning).await;
    let injected = |xr: &Value| xr.pointer("/spec/userData").cloned();
    let before = injected(&world.cluster.object(&world.xr(&waiting)).unwrap());
    assert!(before.is_some());
    let edit = json!({"metadata": {"labels": {"plexsphere.io/project-id": "another-project"}}});
    world.cluster.patch_as("a person", &world.xr(&waiting), &edit);
    world.round(waiting.id()).await.unwrap();
    let repaired = world.cluster.object(&world.xr(&waiting)).unwrap();
    let label = repaired.pointer("/metadata/labels/plexsphere.io~1project-id").unwrap();
    assert_eq!(label, &waiting.project_id().to_string());
    assert_eq!(injected(&repaired), before);
}
