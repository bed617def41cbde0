//! What is waited for, what is refused, and what is left alone.

use broker_app::{Passed, decide::Ending};
use broker_domain::{OnFailure, Phase, RequestId};
use broker_tests::real::Behaviour;
use broker_tests::world::{NODE, operator};
use serde_json::json;

use super::{Namespace, Stage};

pub(crate) async fn a_namespace_that_is_not_ready_is_waited_for(stage: &impl Stage) {
    stage.place(Namespace::NotReady).await;
    let declared = stage.declare(&stage.declaration(NODE)).await.unwrap();
    for _ in 0..3 {
        stage.round(declared.id()).await.unwrap();
    }
    assert_eq!(stage.get(declared.id()).await.phase(), Phase::Pending);
    assert_eq!(stage.standing().await, Vec::<String>::new());

    stage.place(Namespace::Ready).await;
    stage.until(declared.id(), Phase::Ready).await;
    stage.check(declared.id()).await;
}

pub(crate) async fn an_expired_token_is_not_replaced(stage: &impl Stage) {
    let waiting = stage.brought_to(Phase::Enrolling, &stage.declaration(NODE)).await;
    stage.let_tokens_expire().await;
    assert_stays_enrolling(stage, &waiting).await;
}

pub(crate) async fn a_lost_node_is_waited_for_and_gets_no_second_token(stage: &impl Stage) {
    let ready = stage.brought_to(Phase::Ready, &stage.declaration(NODE)).await;
    stage.ports().nodes.deregister(ready.bootstrap_token_id().unwrap()).await.unwrap();
    let waiting = stage.until(ready.id(), Phase::Enrolling).await;
    assert_stays_enrolling(stage, &waiting).await;
}

/// However often it is looked at, nothing is issued and it waits.
async fn assert_stays_enrolling(stage: &impl Stage, waiting: &broker_domain::ProvisionedResource) {
    let issued = stage.times(waiting.id(), "token_issue").await;
    for _ in 0..3 {
        stage.round(waiting.id()).await.unwrap();
    }
    assert_eq!(stage.get(waiting.id()).await, *waiting);
    assert_eq!(stage.times(waiting.id(), "token_issue").await, issued);
    stage.check(waiting.id()).await;
}

pub(crate) async fn a_credential_that_was_not_assigned_does_not_exist(stage: &impl Stage) {
    stage.withdraw_credential().await;
    let refused = stage.declare(&stage.declaration(NODE)).await.unwrap_err();
    assert_eq!(refused.reason(), "credential_not_found");
    assert_eq!(stage.refusals().await, 1);
    let (work, report) = stage.sweep().await;
    assert_eq!((work.len(), report.looked_at), (0, 0), "nothing was stored");
}

pub(crate) async fn a_retry_is_free_and_another_declaration_under_its_name_is_refused(
    stage: &impl Stage,
) {
    let request = RequestId::new("order-1").unwrap();
    let declared = stage.declaration(NODE).with_request_id(request);
    let first = stage.declare(&declared).await.unwrap();
    // Nothing is resolved for a retry: not even what it would now be refused for.
    stage.withdraw_credential().await;
    assert_eq!(stage.declare(&declared).await.unwrap().id(), first.id());
    let other = stage.declare(&declared.clone().on_failure(OnFailure::Rollback)).await.unwrap_err();
    assert_eq!(other.reason(), "idempotency_conflict");
    stage.check(first.id()).await;
}

pub(crate) async fn a_paused_resource_is_not_worked_on(stage: &impl Stage) {
    let declared = stage.declare(&stage.declaration(NODE)).await.unwrap();
    stage.service().pause(&operator(), declared.id()).await.unwrap();
    assert_eq!(stage.round(declared.id()).await.unwrap(), Passed::NotClaimed);
    stage.service().resume(&operator(), declared.id()).await.unwrap();
    stage.until(declared.id(), Phase::Ready).await;
    stage.check(declared.id()).await;
}

pub(crate) async fn a_composite_resource_with_another_token_ends_the_pass_quietly(
    stage: &impl Stage,
) {
    let declared = stage.declare(&stage.declaration(NODE)).await.unwrap();
    stage.behave(declared.id(), Behaviour::NeverReady);
    stage.round(declared.id()).await.unwrap();
    // Somebody armed the composite resource with a token that the row does not know.
    let armed = "00000000-0000-0000-0000-0000000000ff";
    let edit = json!({"metadata": {"annotations": {"plexsphere.io/armed": armed}}});
    stage.edit(&declared, edit).await;
    let passed = stage.round(declared.id()).await.unwrap();
    assert_eq!(passed, Passed::Ended(Ending::StaleRow));
}
