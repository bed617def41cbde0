//! Teardown paths.

use broker_app::PassResult;
use broker_domain::{OnFailure, Phase, ProvisionedResource};
use broker_memory::{Behaviour, Part};
use broker_tests::world::{NODE, World, declaration, operator};

use super::converge::PHASES_BY_BLUEPRINT;
use super::{
    audited_actions, count_audited, delete_xr_as_another_party, request_deletion, rounds_until,
};

const QUOTA: &str = "quota exceeded";

async fn declare_until_failed(world: &World, on_failure: OnFailure) -> ProvisionedResource {
    let declaration = declaration(NODE).on_failure(on_failure);
    let declared = world.declare(&declaration).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, QUOTA));
    world.until(declared.id(), Phase::Failed).await
}

async fn assert_deleted_without_objects(world: &World, id: broker_domain::ProvisionedResourceId) {
    let deleted = world.until(id, Phase::Deleted).await;
    assert!(deleted.substrate().composed().is_empty());
    if let Some(token) = deleted.bootstrap_token_id() {
        assert!(!world.ports.nodes.node_registered(token).await.unwrap(), "the Node still exists");
    }
    assert_eq!(world.existing_objects(), []);
}

#[tokio::test]
async fn terminal_failure_is_retained_until_deletion() {
    let world = &World::new();
    let failed = declare_until_failed(world, OnFailure::Retain).await;
    let failure = failed.failure().unwrap();
    assert_eq!((failure.reason().as_str(), failure.step()), (QUOTA, Phase::Provisioning));
    assert_eq!(world.round(failed.id()).await.unwrap(), PassResult::NotClaimed, "it is settled");

    request_deletion(world, failed.id()).await;
    assert_deleted_without_objects(world, failed.id()).await;
    let deleted = world.get(failed.id()).await;
    assert_eq!(deleted.failure().unwrap().reason().as_str(), QUOTA, "the row keeps its failure");
}

#[tokio::test]
async fn terminal_failure_is_rolled_back() {
    let world = &World::new();
    let failed = declare_until_failed(world, OnFailure::Rollback).await;
    assert_deleted_without_objects(world, failed.id()).await;
    let deleted = world.get(failed.id()).await;
    assert_eq!(deleted.failure().unwrap().reason().as_str(), QUOTA);
}

#[tokio::test]
async fn failure_survives_the_deletion_of_its_xr() {
    let world = &World::new();
    let failed = declare_until_failed(world, OnFailure::Retain).await;
    delete_xr_as_another_party(world, &failed);
    let (work, _) = world.sweep().await;
    assert_eq!(work, []);
    assert_eq!(world.round(failed.id()).await.unwrap(), PassResult::NotClaimed);
    assert_eq!(world.get(failed.id()).await, failed);
    request_deletion(world, failed.id()).await;
    assert_deleted_without_objects(world, failed.id()).await;
}

#[tokio::test]
async fn deletion_in_every_phase_leaves_no_object() {
    let world = &World::new();
    for (blueprint, phase) in PHASES_BY_BLUEPRINT {
        let resource = world.declare_until(phase, &declaration(blueprint)).await;
        request_deletion(world, resource.id()).await;
        assert_deleted_without_objects(world, resource.id()).await;
    }
}

#[tokio::test]
async fn repeated_deletion_request_changes_nothing() {
    let world = &World::new();
    for phase in [Phase::Deregistering, Phase::Deprovisioning, Phase::Deleted] {
        let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
        request_deletion(world, ready.id()).await;
        rounds_until(world, ready.id(), phase).await;
        let (before, actions) =
            (world.get(ready.id()).await, audited_actions(world, ready.id()).await);
        assert_eq!(request_deletion(world, ready.id()).await, before, "{phase}");
        assert_eq!(audited_actions(world, ready.id()).await, actions, "{phase}");
        rounds_until(world, ready.id(), Phase::Deleted).await;
        assert_eq!(world.existing_objects(), [], "{phase}");
    }
}

#[tokio::test]
async fn xr_deleted_during_teardown_is_not_recreated() {
    let world = &World::new();
    for phase in [Phase::Deregistering, Phase::Deprovisioning] {
        let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
        request_deletion(world, ready.id()).await;
        world.cluster.stop(Part::Provider);
        rounds_until(world, ready.id(), phase).await;
        world.cluster.start(Part::Provider);
        delete_xr_as_another_party(world, &ready);
        assert!(world.cluster.object(&world.xr(&ready)).is_none());
        let applies = count_audited(world, ready.id(), "substrate_apply").await;
        assert_deleted_without_objects(world, ready.id()).await;
        assert_eq!(count_audited(world, ready.id(), "substrate_apply").await, applies, "{phase}");
    }
}

#[tokio::test]
async fn provider_config_is_deleted_last() {
    let world = &World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.cluster.stop(Part::Provider);
    request_deletion(world, ready.id()).await;
    for round in 0..20 {
        if round == 4 {
            world.cluster.start(Part::Provider);
        }
        world.round(ready.id()).await.unwrap();
        let existing = world.existing_objects();
        let config = existing.iter().any(|object| object.kind() == "ProviderConfig");
        assert!(config || existing.is_empty(), "objects without ProviderConfig: {existing:?}");
        if world.get(ready.id()).await.phase() == Phase::Deleted {
            assert!(round >= 4, "the stopped provider holds the teardown");
            return;
        }
    }
    panic!("teardown did not end");
}

#[tokio::test]
async fn abandoned_resource_gets_no_pass() {
    let world = &World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let refused = world.service.abandon(&operator(), ready.id(), "lost").await.unwrap_err();
    assert_eq!(refused.reason(), "illegal_transition");
    request_deletion(world, ready.id()).await;
    let abandoned = world.service.abandon(&operator(), ready.id(), "lost").await.unwrap();
    assert!(abandoned.abandoned() && abandoned.token_closed());
    let existing = world.existing_objects();
    assert_eq!(existing.len(), 3);
    for _ in 0..2 {
        assert_eq!(world.round(ready.id()).await.unwrap(), PassResult::NotClaimed);
        let (work, _) = world.sweep().await;
        assert_eq!(work, []);
    }
    assert_eq!(world.existing_objects(), existing, "no sweep touches the objects");
    let token = ready.bootstrap_token_id().unwrap();
    assert!(world.ports.nodes.node_registered(token).await.unwrap(), "no sweep touches the Node");
}

#[tokio::test]
async fn audit_lists_every_action() {
    let world = &World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    request_deletion(world, ready.id()).await;
    world.until(ready.id(), Phase::Deleted).await;
    let actions = audited_actions(world, ready.id()).await;
    assert_eq!(actions.first(), Some(&"declared"));
    assert_eq!(actions.last(), Some(&"phase_changed"));
    for action in [
        "token_issue",
        "token_recorded",
        "substrate_apply",
        "tokens_close",
        "node_deregister",
        "substrate_delete",
    ] {
        assert!(actions.contains(&action), "{action}: {actions:?}");
    }
}
