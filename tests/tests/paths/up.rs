//! The ways up, and up again.

use broker_app::Passed;
use broker_domain::{Action, MeshRole, Phase};
use broker_tests::real::Behaviour;
use broker_tests::world::{NODE, SIZED, STANDALONE};
use serde_json::{Value, json};

use super::Stage;

/// Every phase on the way up, for both kinds of resources.
pub(super) const WAYS_UP: [(u128, Phase); 7] = [
    (NODE, Phase::Pending),
    (NODE, Phase::Provisioning),
    (NODE, Phase::Enrolling),
    (NODE, Phase::Ready),
    (STANDALONE, Phase::Pending),
    (STANDALONE, Phase::Provisioning),
    (STANDALONE, Phase::Ready),
];

pub(crate) async fn a_node_comes_up_and_enrols(stage: &impl Stage) {
    let declared = stage.declare(&stage.declaration(NODE)).await.unwrap();
    assert_eq!(declared.phase(), Phase::Pending);
    let ready = stage.until(declared.id(), Phase::Ready).await;
    assert!(ready.bootstrap_token_id().is_some());
    assert!(ready.first_ready_at().is_some());
    assert_eq!(ready.substrate().composed().len(), 1);
    let standing = stage.standing().await;
    assert_eq!(standing.len(), 3, "composite resource, ProviderConfig, composed: {standing:?}");

    let settled = stage.round(ready.id()).await.unwrap();
    let stays = Passed::Through { action: Action::Noop, from: Phase::Ready, to: Phase::Ready };
    assert_eq!(settled, stays);
    assert_eq!(stage.get(ready.id()).await.version(), ready.version(), "and writes nothing");
    stage.check(ready.id()).await;
}

pub(crate) async fn a_standalone_resource_comes_up_without_a_token(stage: &impl Stage) {
    let ready = stage.brought_to(Phase::Ready, &stage.declaration(STANDALONE)).await;
    assert_eq!(ready.mesh_role(), MeshRole::Standalone);
    assert_eq!(ready.bootstrap_token_id(), None);
    let xr = stage.xr(&ready).await.unwrap();
    assert_eq!(xr.pointer("/spec/userData"), None, "nothing is injected");
    assert_eq!(stage.times(ready.id(), "token_issue").await, 0);
    stage.check(ready.id()).await;
}

pub(crate) async fn required_parameters_are_kept_and_rendered(stage: &impl Stage) {
    let refused = stage.declare(&stage.declaration(SIZED)).await.unwrap_err();
    assert_eq!(refused.reason(), "parameter_values_invalid");

    let sized = stage.declaration(SIZED).with_parameters(r#"{"size": "large"}"#);
    let ready = stage.brought_to(Phase::Ready, &sized).await;
    assert_eq!(ready.parameters().as_json(), r#"{"count":1,"size":"large"}"#);
    let xr = stage.xr(&ready).await.unwrap();
    assert_eq!(xr["spec"]["parameters"], json!({"count": 1, "size": "large"}));
    stage.check(ready.id()).await;
}

pub(crate) async fn a_node_whose_composite_resource_is_deleted_is_made_again(stage: &impl Stage) {
    made_again(stage, NODE).await;
}

pub(crate) async fn a_composite_resource_deleted_by_hand_is_made_again(stage: &impl Stage) {
    made_again(stage, STANDALONE).await;
}

/// One kind at a time: each loss takes one of the few permits.
async fn made_again(stage: &impl Stage, kind: u128) {
    for (blueprint, phase) in WAYS_UP.into_iter().filter(|(blueprint, _)| *blueprint == kind) {
        let resource = stage.brought_to(phase, &stage.declaration(blueprint)).await;
        let id = resource.id();
        if phase == Phase::Pending {
            // The first pass applies, and the row stays in Pending until that is observed.
            stage.reconciler().reconcile(id).await.unwrap();
            assert_eq!(stage.get(id).await.phase(), Phase::Pending);
        }
        let before = stage.xr(&resource).await.unwrap();
        stage.delete_by_hand(&resource).await;
        stage.round(id).await.unwrap();
        stage.until(id, Phase::Ready).await;
        let after = stage.xr(&resource).await.unwrap();
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"], "in {phase}");
        stage.check(id).await;
    }
}

pub(crate) async fn an_enrolled_node_is_replaced_by_a_new_one_with_a_new_token(stage: &impl Stage) {
    let first = stage.brought_to(Phase::Ready, &stage.declaration(NODE)).await;
    stage.delete_by_hand(&first).await;
    stage.until(first.id(), Phase::Pending).await;
    let second = stage.until(first.id(), Phase::Ready).await;
    assert_ne!(second.bootstrap_token_id(), first.bootstrap_token_id());
    assert_eq!(second.token_ordinal().get(), 2);
    let old = first.bootstrap_token_id().unwrap();
    let registered = stage.ports().nodes.node_registered(old).await.unwrap();
    assert!(!registered, "the old Node left before the new one came");
    assert_eq!(second.event_sequence(), first.event_sequence() + 1, "Ready was told again");
    stage.check(first.id()).await;
}

pub(crate) async fn drift_is_mended_and_the_injected_token_is_kept(stage: &impl Stage) {
    let waiting = stage.declare(&stage.declaration(NODE)).await.unwrap();
    stage.behave(waiting.id(), Behaviour::NeverReady);
    stage.until(waiting.id(), Phase::Provisioning).await;
    let injected = |xr: &Value| xr.pointer("/spec/userData").cloned();
    let before = injected(&stage.xr(&waiting).await.unwrap());
    assert!(before.is_some());
    let edit = json!({"metadata": {"labels": {"plexsphere.io/project-id": "somebody-elses"}}});
    stage.edit(&waiting, edit).await;
    stage.round(waiting.id()).await.unwrap();
    let mended = stage.xr(&waiting).await.unwrap();
    let label = mended.pointer("/metadata/labels/plexsphere.io~1project-id").unwrap();
    assert_eq!(label, &waiting.project_id().to_string());
    assert_eq!(injected(&mended), before);
    stage.check(waiting.id()).await;
}
