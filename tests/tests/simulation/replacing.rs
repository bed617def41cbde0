//! Replacing a resource: the old one is torn down and a new one takes its place, both or neither.

use std::pin::Pin;
use std::time::Duration;

use broker_app::explain::Verdict;
use broker_app::one_line;
use broker_domain::{OnFailure, Phase, ProvisionedResource, ProvisionedResourceId, RequestId};
use broker_memory::Behaviour;
use broker_ports::{AuditAction, ListQuery, PageSize, PortName, Repository};
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan};
use broker_tests::K;
use broker_tests::world::{NODE, SIZED, STANDALONE, World, declaration, operator, project};

fn named(request: &str) -> RequestId {
    RequestId::new(request).unwrap()
}

/// Every stored resource.
async fn stored(world: &World) -> Vec<ProvisionedResource> {
    world.store.list(&ListQuery::new(PageSize::MAX)).await.unwrap().resources
}

fn actions(world: &World, of: ProvisionedResourceId) -> Vec<AuditAction> {
    let lines = world.store.audit_trail();
    let of = lines.iter().filter(|line| line.entry.resource == Some(of));
    of.map(|line| line.entry.action).collect()
}

fn refusals(world: &World) -> usize {
    let lines = world.store.audit_trail();
    lines.iter().filter(|line| line.entry.action == AuditAction::DeclarationRefused).count()
}

/// What a declaration says, but for its request id.
fn said(resource: &ProvisionedResource) -> impl PartialEq + std::fmt::Debug {
    (
        (resource.project_id(), resource.resource_id()),
        (resource.blueprint_version_id(), resource.cloud_credential_id()),
        (resource.parameters().as_json().to_owned(), resource.on_failure()),
    )
}

#[tokio::test]
async fn machine_whose_token_expired_is_replaced_and_the_new_one_enrols() {
    let world = World::new();
    let sized = declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let old = world.brought_to(Phase::Enrolling, &sized.on_failure(OnFailure::Rollback)).await;
    world.clock.advance(Duration::from_mins(61));
    let explained = world.explain(old.id()).await;
    assert_eq!(explained.verdict, Verdict::TokenExpired);
    let command = explained.action.command();
    assert_eq!(command, Some(format!("provisioning-broker replace {}", old.id())));

    let new = world.service.replace(&operator(), old.id(), None).await.unwrap();
    assert_ne!(new.id(), old.id());
    assert_eq!((new.phase(), said(&new)), (Phase::Pending, said(&old)));
    assert_eq!(new.parameters().as_json(), r#"{"count":1,"size":"small"}"#);
    for _ in 0..K {
        assert_eq!(world.round_of(&[old.id(), new.id()]).await.len(), 0);
    }
    let phases = (world.get(old.id()).await.phase(), world.get(new.id()).await.phase());
    assert_eq!(phases, (Phase::Deleted, Phase::Ready));
    let left = world.standing();
    assert!(left.contains(&world.xr(&new)) && !left.contains(&world.xr(&old)), "{left:?}");
    let lines = world.store.audit_trail();
    let line = lines.iter().find(|line| line.entry.action == AuditAction::Replaced).unwrap();
    assert_eq!(line.entry.resource, Some(old.id()));
    assert_eq!(line.entry.event_data, Some(new.id().to_string()), "the new one is named");
}

/// A resource in each phase that a replacement can meet.
async fn in_phase(phase: Phase) -> (World, ProvisionedResource) {
    let world = World::new();
    if phase == Phase::Failed {
        let declared = world.declare(&declaration(STANDALONE)).await.unwrap();
        let fails = Behaviour::failing_after(1, "out of quota");
        world.cluster.behave_for(declared.id(), fails);
        let failed = world.until(declared.id(), Phase::Failed).await;
        return (world, failed);
    }
    if !phase.is_teardown() {
        let resource = world.brought_to(phase, &declaration(NODE)).await;
        return (world, resource);
    }
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    let leaving = world.service.deprovision(&operator(), ready.id()).await.unwrap();
    let resource =
        if phase == leaving.phase() { leaving } else { world.until(ready.id(), phase).await };
    (world, resource)
}

#[tokio::test]
async fn replace_is_accepted_in_every_phase_but_deleted() {
    for phase in Phase::ALL {
        let (world, old) = in_phase(phase).await;
        assert_eq!(old.phase(), phase);
        let before = actions(&world, old.id());
        let replaced = world.service.replace(&operator(), old.id(), None).await;
        let added = actions(&world, old.id()).split_off(before.len());
        if phase == Phase::Deleted {
            let told = one_line(&replaced.unwrap_err());
            let expected =
                "phase: is Deleted, so there is nothing left to replace; use provision instead";
            assert_eq!(told, expected);
            assert_eq!((added, stored(&world).await.len()), (Vec::new(), 1));
            assert_eq!(refusals(&world), 1);
            continue;
        }
        let new = replaced.unwrap();
        assert_eq!((new.phase(), said(&new)), (Phase::Pending, said(&old)), "{phase}");
        if phase.is_teardown() {
            assert_eq!(added, [AuditAction::Replaced], "{phase}");
            assert_eq!(world.get(old.id()).await, old, "its teardown goes on: {phase}");
        } else {
            let expected = [AuditAction::DeletionRequested, AuditAction::Replaced];
            assert_eq!(added, expected, "{phase}");
            assert_eq!(world.get(old.id()).await.phase(), Phase::Deregistering, "{phase}");
        }
    }
}

#[tokio::test]
async fn repeated_replace_answers_the_first_replacement() {
    for request in [None, Some(named("ticket-9"))] {
        let world = World::new();
        let old = world.brought_to(Phase::Ready, &declaration(NODE)).await;
        let first = world.service.replace(&operator(), old.id(), request.clone()).await.unwrap();
        let again = world.service.replace(&operator(), old.id(), request.clone()).await.unwrap();
        assert_eq!(again, first);
        world.until(old.id(), Phase::Deleted).await;
        let late = world.service.replace(&operator(), old.id(), request).await.unwrap();
        assert_eq!(late.id(), first.id(), "also when the old one is Deleted");
        assert_eq!(stored(&world).await.len(), 2);
        let replaced = actions(&world, old.id());
        let replaced = replaced.iter().filter(|action| **action == AuditAction::Replaced);
        assert_eq!(replaced.count(), 1);
    }
}

#[tokio::test]
async fn replace_under_a_request_id_of_another_thing_is_refused() {
    let world = World::new();
    let (own, other, equal) = (named("order-1"), named("order-2"), named("order-3"));
    let old = world.declare(&declaration(NODE).with_request_id(own.clone())).await.unwrap();
    world.declare(&declaration(STANDALONE).with_request_id(other.clone())).await.unwrap();
    world.declare(&declaration(NODE).with_request_id(equal.clone())).await.unwrap();
    for (request, told) in [
        (own, "request_id: order-1 was used for another resource; give another one, or none"),
        (other, "request id order-2 was already used in project"),
        (equal, "request_id: order-3 was used for another resource; give another one, or none"),
    ] {
        let refused = world.service.replace(&operator(), old.id(), Some(request)).await;
        let refused = one_line(&refused.unwrap_err());
        assert!(refused.starts_with(told), "{refused}");
    }
    assert_eq!(world.get(old.id()).await, old);
    assert_eq!((stored(&world).await.len(), refusals(&world)), (3, 3));
}

#[tokio::test]
async fn replace_that_admission_refuses_leaves_the_old_one() {
    let world = World::new();
    let old = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    world.neighbours.withdraw(project(), id(4));
    let error = world.service.replace(&operator(), old.id(), None).await.unwrap_err();
    assert_eq!(error.reason(), "credential_not_found");
    assert_eq!(world.get(old.id()).await, old);
    assert_eq!((stored(&world).await.len(), refusals(&world)), (1, 1));
}

/// The old resource is read as it was before a pass changed it.
#[tokio::test]
async fn replace_from_a_stale_read_commits_from_the_new_version() {
    let world = World::new();
    let old = world.declare(&declaration(NODE)).await.unwrap().id();
    let plan = FaultPlan::none().on(PortName::Repository, "get_by_id", 2, Fault::StaleRead);
    let (service, faults) = world.service_under(plan);
    service.get(&operator(), old).await.unwrap();
    world.round(old).await.unwrap();
    let caller = operator();
    // Embedders spawn their handlers, so the future has to be Send.
    let asked: Pin<Box<dyn Future<Output = _> + Send>> =
        Box::pin(service.replace(&caller, old, None));
    let new = asked.await.unwrap();
    let calls = faults.calls();
    assert_eq!(calls.get(&(PortName::Repository, "replace")), Some(&2), "the first one was stale");
    assert_eq!(world.get(old).await.phase(), Phase::Deregistering);
    assert_eq!(world.get(new.id()).await.phase(), Phase::Pending);
    assert_eq!(stored(&world).await.len(), 2);
}

#[tokio::test]
async fn replace_whose_commit_fails_stores_both_or_none() {
    for (fault, happened) in [(Fault::BeforeEffect, false), (Fault::AfterEffect, true)] {
        let world = World::new();
        let old = world.brought_to(Phase::Ready, &declaration(NODE)).await;
        let plan = FaultPlan::none().on(PortName::Repository, "replace", 1, fault);
        let service = world.service_with(plan);
        let error = service.replace(&operator(), old.id(), None).await.unwrap_err();
        let leaving = world.get(old.id()).await.phase() == Phase::Deregistering;
        let halves = (leaving, stored(&world).await.len() == 2);
        assert_eq!(halves, (happened, happened), "{}", error.reason());
        let new = service.replace(&operator(), old.id(), None).await.unwrap();
        assert_eq!(world.get(old.id()).await.phase(), Phase::Deregistering);
        let ids: Vec<_> = stored(&world).await.iter().map(ProvisionedResource::id).collect();
        assert_eq!(ids.len(), 2);
        assert!(ids.contains(&new.id()));
    }
}
