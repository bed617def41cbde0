//! Waiting, refusal, and no-ops.

use std::time::Duration;

use broker_app::{PassResult, decide::EarlyExit};
use broker_domain::{OnFailure, Phase, RequestId};
use broker_memory::Behaviour;
use broker_ports::AuditAction;
use broker_testkit::builders::id;
use broker_tests::world::{NODE, World, declaration, operator, project};
use serde_json::json;

use super::count_audited;

pub(crate) async fn pass_waits_for_an_unready_namespace(world: &World) {
    world.place(false);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    for _ in 0..3 {
        world.round(declared.id()).await.unwrap();
    }
    assert_eq!(world.get(declared.id()).await.phase(), Phase::Pending);
    assert_eq!(world.existing_objects(), []);

    world.place(true);
    world.until(declared.id(), Phase::Ready).await;
}

pub(crate) async fn an_expired_token_is_not_replaced(world: &World) {
    let waiting = world.declare_until(Phase::Enrolling, &declaration(NODE)).await;
    world.clock.advance(Duration::from_hours(2));
    assert_stays_enrolling(world, &waiting).await;
}

pub(crate) async fn lost_node_gets_no_second_token(world: &World) {
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.ports.nodes.deregister(ready.bootstrap_token_id().unwrap()).await.unwrap();
    let waiting = world.until(ready.id(), Phase::Enrolling).await;
    assert_stays_enrolling(world, &waiting).await;
}

async fn assert_stays_enrolling(world: &World, waiting: &broker_domain::ProvisionedResource) {
    let issued = count_audited(world, waiting.id(), "token_issue").await;
    for _ in 0..3 {
        world.round(waiting.id()).await.unwrap();
    }
    assert_eq!(world.get(waiting.id()).await, *waiting);
    assert_eq!(count_audited(world, waiting.id(), "token_issue").await, issued);
}

pub(crate) async fn unassigned_credential_is_refused_as_absent(world: &World) {
    world.platform.withdraw(project(), id(4));
    let refused = world.declare(&declaration(NODE)).await.unwrap_err();
    assert_eq!(refused.reason(), "credential_not_found");
    let lines = world.store.audit_trail();
    let is_refusal = |action| action == AuditAction::DeclarationRefused;
    assert_eq!(lines.iter().filter(|line| is_refusal(line.entry.action)).count(), 1);
    let (work, report) = world.sweep().await;
    assert_eq!((work.len(), report.looked_at), (0, 0), "nothing was stored");
}

pub(crate) async fn retry_returns_the_first_resource(world: &World) {
    let request = RequestId::new("order-1").unwrap();
    let retried = declaration(NODE).with_request_id(request);
    let first = world.declare(&retried).await.unwrap();
    // A retry resolves no reference, so a withdrawn credential does not matter.
    world.platform.withdraw(project(), id(4));
    assert_eq!(world.declare(&retried).await.unwrap().id(), first.id());
    let other = world.declare(&retried.clone().on_failure(OnFailure::Rollback)).await.unwrap_err();
    assert_eq!(other.reason(), "idempotency_conflict");
}

pub(crate) async fn paused_resource_gets_no_pass(world: &World) {
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.service.pause(&operator(), declared.id()).await.unwrap();
    assert_eq!(world.round(declared.id()).await.unwrap(), PassResult::NotClaimed);
    world.service.resume(&operator(), declared.id()).await.unwrap();
    world.until(declared.id(), Phase::Ready).await;
}

pub(crate) async fn xr_with_another_token_ends_the_pass_without_error(world: &World) {
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::never_ready());
    world.round(declared.id()).await.unwrap();
    // Another party armed the composite resource with a token that the row does not have.
    let armed = "00000000-0000-0000-0000-0000000000ff";
    let edit = json!({"metadata": {"annotations": {"plexsphere.io/armed": armed}}});
    world.cluster.patch_as("a person", &world.xr(&declared), &edit);
    let passed = world.round(declared.id()).await.unwrap();
    assert_eq!(passed, PassResult::EndedEarly(EarlyExit::StaleRow));
}
