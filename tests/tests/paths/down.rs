//! Teardown paths.

use broker_app::PassResult;
use broker_domain::{OnFailure, Phase, ProvisionedResource};
use broker_memory::{Behaviour, Part};
use broker_tests::world::{NODE, World, declaration, operator};

use super::up::WAYS_UP;
use super::{delete_by_hand, request_deletion, rounds_until, story, times};

const QUOTA: &str = "quota exceeded";

async fn failed(world: &World, on_failure: OnFailure) -> ProvisionedResource {
    let declaration = declaration(NODE).on_failure(on_failure);
    let declared = world.declare(&declaration).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, QUOTA));
    world.until(declared.id(), Phase::Failed).await
}

async fn assert_gone(world: &World, id: broker_domain::ProvisionedResourceId) {
    let gone = world.until(id, Phase::Deleted).await;
    assert!(gone.substrate().composed().is_empty());
    if let Some(token) = gone.bootstrap_token_id() {
        assert!(
            !world.ports.nodes.node_registered(token).await.unwrap(),
            "its Node was deregistered"
        );
    }
    assert_eq!(world.existing_objects(), []);
}

pub(crate) async fn a_terminal_failure_is_retained_until_it_is_deleted(world: &World) {
    let failed = failed(world, OnFailure::Retain).await;
    let failure = failed.failure().unwrap();
    assert_eq!((failure.reason().as_str(), failure.step()), (QUOTA, Phase::Provisioning));
    assert_eq!(world.round(failed.id()).await.unwrap(), PassResult::NotClaimed, "it is settled");

    request_deletion(world, failed.id()).await;
    assert_gone(world, failed.id()).await;
    let gone = world.get(failed.id()).await;
    assert_eq!(gone.failure().unwrap().reason().as_str(), QUOTA, "it stays on the row");
}

pub(crate) async fn a_terminal_failure_is_rolled_back(world: &World) {
    let failed = failed(world, OnFailure::Rollback).await;
    assert_gone(world, failed.id()).await;
    let gone = world.get(failed.id()).await;
    assert_eq!(gone.failure().unwrap().reason().as_str(), QUOTA);
}

pub(crate) async fn xr_deleted_by_another_party_keeps_a_failure(world: &World) {
    let failed = failed(world, OnFailure::Retain).await;
    delete_by_hand(world, &failed);
    let (work, _) = world.sweep().await;
    assert_eq!(work, []);
    assert_eq!(world.round(failed.id()).await.unwrap(), PassResult::NotClaimed);
    assert_eq!(world.get(failed.id()).await, failed);
    request_deletion(world, failed.id()).await;
    assert_gone(world, failed.id()).await;
}

pub(crate) async fn deletion_is_possible_in_every_phase(world: &World) {
    for (blueprint, phase) in WAYS_UP {
        let resource = world.declare_until(phase, &declaration(blueprint)).await;
        request_deletion(world, resource.id()).await;
        assert_gone(world, resource.id()).await;
    }
}

pub(crate) async fn repeated_deletion_request_changes_nothing(world: &World) {
    for phase in [Phase::Deregistering, Phase::Deprovisioning, Phase::Deleted] {
        let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
        request_deletion(world, ready.id()).await;
        rounds_until(world, ready.id(), phase).await;
        let (before, lines) = (world.get(ready.id()).await, story(world, ready.id()).await);
        assert_eq!(request_deletion(world, ready.id()).await, before, "{phase}");
        assert_eq!(story(world, ready.id()).await, lines, "{phase}");
        rounds_until(world, ready.id(), Phase::Deleted).await;
        assert_eq!(world.existing_objects(), [], "{phase}");
    }
}

pub(crate) async fn xr_deleted_by_another_party_in_teardown_stays_deleted(world: &World) {
    for phase in [Phase::Deregistering, Phase::Deprovisioning] {
        let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
        request_deletion(world, ready.id()).await;
        world.cluster.stop(Part::Provider);
        rounds_until(world, ready.id(), phase).await;
        world.cluster.start(Part::Provider);
        delete_by_hand(world, &ready);
        assert!(world.cluster.object(&world.xr(&ready)).is_none());
        let applied = times(world, ready.id(), "substrate_apply").await;
        assert_gone(world, ready.id()).await;
        assert_eq!(times(world, ready.id(), "substrate_apply").await, applied, "{phase}");
    }
}

pub(crate) async fn the_provider_config_goes_last(world: &World) {
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.cluster.stop(Part::Provider);
    request_deletion(world, ready.id()).await;
    for round in 0..20 {
        if round == 4 {
            world.cluster.start(Part::Provider);
        }
        world.round(ready.id()).await.unwrap();
        let standing = world.existing_objects();
        let config = standing.iter().any(|object| object.kind() == "ProviderConfig");
        assert!(config || standing.is_empty(), "outlived their ProviderConfig: {standing:?}");
        if world.get(ready.id()).await.phase() == Phase::Deleted {
            assert!(round >= 4, "it was held");
            return;
        }
    }
    panic!("teardown did not end");
}

pub(crate) async fn abandoned_resource_is_left_alone(world: &World) {
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let early = world.service.abandon(&operator(), ready.id(), "lost").await.unwrap_err();
    assert_eq!(early.reason(), "illegal_transition");
    request_deletion(world, ready.id()).await;
    let given_up = world.service.abandon(&operator(), ready.id(), "lost").await.unwrap();
    assert!(given_up.abandoned() && given_up.token_closed());
    let standing = world.existing_objects();
    assert_eq!(standing.len(), 3);
    for _ in 0..2 {
        assert_eq!(world.round(ready.id()).await.unwrap(), PassResult::NotClaimed);
        let (work, _) = world.sweep().await;
        assert_eq!(work, []);
    }
    assert_eq!(world.existing_objects(), standing, "no sweep touches it");
    let token = ready.bootstrap_token_id().unwrap();
    assert!(world.ports.nodes.node_registered(token).await.unwrap(), "no sweep touches its Node");
}

pub(crate) async fn audit_lists_every_action(world: &World) {
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    request_deletion(world, ready.id()).await;
    world.until(ready.id(), Phase::Deleted).await;
    let story = story(world, ready.id()).await;
    assert_eq!(story.first(), Some(&"declared"));
    assert_eq!(story.last(), Some(&"phase_changed"));
    for action in [
        "token_issue",
        "token_recorded",
        "substrate_apply",
        "tokens_close",
        "node_deregister",
        "substrate_delete",
    ] {
        assert!(story.contains(&action), "{action}: {story:?}");
    }
}
