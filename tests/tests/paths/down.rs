//! The ways down.

use broker_app::Passed;
use broker_domain::{OnFailure, Phase, ProvisionedResource};
use broker_tests::real::Behaviour;
use broker_tests::world::{NODE, operator};

use super::up::WAYS_UP;
use super::{Deletions, Stage};

const QUOTA: &str = "quota exceeded";

/// A resource that has failed for good.
async fn failed(stage: &impl Stage, on_failure: OnFailure) -> ProvisionedResource {
    let declaration = stage.declaration(NODE).on_failure(on_failure);
    let declared = stage.declare(&declaration).await.unwrap();
    stage.behave(declared.id(), Behaviour::Failing(QUOTA.to_owned()));
    stage.until(declared.id(), Phase::Failed).await
}

async fn assert_gone(stage: &impl Stage, id: broker_domain::ProvisionedResourceId) {
    let gone = stage.until(id, Phase::Deleted).await;
    assert!(gone.substrate().composed().is_empty());
    if let Some(token) = gone.bootstrap_token_id() {
        assert!(!stage.ports().nodes.node_registered(token).await.unwrap(), "its Node left");
    }
    assert_eq!(stage.standing().await, Vec::<String>::new());
    stage.check(id).await;
}

pub(crate) async fn a_terminal_failure_is_retained_until_it_is_deleted(stage: &impl Stage) {
    let failed = failed(stage, OnFailure::Retain).await;
    let failure = failed.failure().unwrap();
    assert_eq!((failure.reason().as_str(), failure.step()), (QUOTA, Phase::Provisioning));
    assert_eq!(stage.round(failed.id()).await.unwrap(), Passed::NotClaimed, "it is at rest");

    stage.request_deletion(failed.id()).await;
    assert_gone(stage, failed.id()).await;
    let gone = stage.get(failed.id()).await;
    assert_eq!(gone.failure().unwrap().reason().as_str(), QUOTA, "it stays on the row");
}

pub(crate) async fn a_terminal_failure_is_rolled_back(stage: &impl Stage) {
    let failed = failed(stage, OnFailure::Rollback).await;
    assert_gone(stage, failed.id()).await;
    let gone = stage.get(failed.id()).await;
    assert_eq!(gone.failure().unwrap().reason().as_str(), QUOTA);
}

pub(crate) async fn a_composite_resource_deleted_by_hand_leaves_a_failure_as_it_is(
    stage: &impl Stage,
) {
    let failed = failed(stage, OnFailure::Retain).await;
    stage.delete_by_hand(&failed).await;
    let (work, _) = stage.sweep().await;
    assert_eq!(work, []);
    assert_eq!(stage.round(failed.id()).await.unwrap(), Passed::NotClaimed);
    assert_eq!(stage.get(failed.id()).await, failed);
    stage.request_deletion(failed.id()).await;
    assert_gone(stage, failed.id()).await;
}

pub(crate) async fn deletion_leads_away_from_every_phase(stage: &impl Stage) {
    for (blueprint, phase) in WAYS_UP {
        let resource = stage.brought_to(phase, &stage.declaration(blueprint)).await;
        stage.request_deletion(resource.id()).await;
        assert_gone(stage, resource.id()).await;
    }
}

pub(crate) async fn asking_for_a_deletion_again_changes_nothing(stage: &impl Stage) {
    for phase in [Phase::Deregistering, Phase::Deprovisioning, Phase::Deleted] {
        let ready = stage.brought_to(Phase::Ready, &stage.declaration(NODE)).await;
        stage.request_deletion(ready.id()).await;
        stage.rounds_until(ready.id(), phase).await;
        let (before, lines) = (stage.get(ready.id()).await, stage.story(ready.id()).await);
        assert_eq!(stage.request_deletion(ready.id()).await, before, "{phase}");
        assert_eq!(stage.story(ready.id()).await, lines, "{phase}");
        stage.rounds_until(ready.id(), Phase::Deleted).await;
        assert_eq!(stage.standing().await, Vec::<String>::new(), "{phase}");
        stage.check(ready.id()).await;
    }
}

pub(crate) async fn a_composite_resource_deleted_by_hand_on_the_way_down_is_not_made_again(
    stage: &impl Stage,
) {
    for phase in [Phase::Deregistering, Phase::Deprovisioning] {
        let ready = stage.brought_to(Phase::Ready, &stage.declaration(NODE)).await;
        stage.request_deletion(ready.id()).await;
        stage.deletions(Deletions::Held);
        stage.rounds_until(ready.id(), phase).await;
        stage.deletions(Deletions::Finished);
        stage.delete_by_hand(&ready).await;
        assert!(stage.xr(&ready).await.is_none());
        let applied = stage.times(ready.id(), "substrate_apply").await;
        assert_gone(stage, ready.id()).await;
        assert_eq!(stage.times(ready.id(), "substrate_apply").await, applied, "{phase}");
    }
}

pub(crate) async fn the_provider_config_goes_last(stage: &impl Stage) {
    let ready = stage.brought_to(Phase::Ready, &stage.declaration(NODE)).await;
    stage.deletions(Deletions::Held);
    stage.request_deletion(ready.id()).await;
    for round in 0..20 {
        if round == 4 {
            stage.deletions(Deletions::Finished);
        }
        stage.round(ready.id()).await.unwrap();
        let standing = stage.standing().await;
        let config = standing.iter().any(|object| object.starts_with("ProviderConfig"));
        assert!(config || standing.is_empty(), "outlived their ProviderConfig: {standing:?}");
        if stage.get(ready.id()).await.phase() == Phase::Deleted {
            assert!(round >= 4, "it was held");
            return stage.check(ready.id()).await;
        }
    }
    panic!("teardown did not end");
}

pub(crate) async fn an_abandoned_resource_is_left_alone(stage: &impl Stage) {
    let ready = stage.brought_to(Phase::Ready, &stage.declaration(NODE)).await;
    let early = stage.service().abandon(&operator(), ready.id(), "lost").await.unwrap_err();
    assert_eq!(early.reason(), "illegal_transition");
    stage.request_deletion(ready.id()).await;
    let given_up = stage.service().abandon(&operator(), ready.id(), "lost").await.unwrap();
    assert!(given_up.abandoned() && given_up.token_closed());
    let standing = stage.standing().await;
    assert_eq!(standing.len(), 3);
    for _ in 0..2 {
        assert_eq!(stage.round(ready.id()).await.unwrap(), Passed::NotClaimed);
        let (work, _) = stage.sweep().await;
        assert_eq!(work, []);
    }
    assert_eq!(stage.standing().await, standing, "no sweep touches it");
    let token = ready.bootstrap_token_id().unwrap();
    assert!(stage.ports().nodes.node_registered(token).await.unwrap(), "nor its Node");
    stage.check(ready.id()).await;
}

pub(crate) async fn the_audit_tells_the_story(stage: &impl Stage) {
    let ready = stage.brought_to(Phase::Ready, &stage.declaration(NODE)).await;
    stage.request_deletion(ready.id()).await;
    stage.until(ready.id(), Phase::Deleted).await;
    let story = stage.story(ready.id()).await;
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
