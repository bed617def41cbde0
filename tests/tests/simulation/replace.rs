//! Replace: one transaction requests the old resource's deletion and declares a new one.

use std::pin::Pin;
use std::time::Duration;

use broker_app::explain::Verdict;
use broker_app::one_line;
use broker_domain::{OnFailure, Phase, ProvisionedResource, RequestId};
use broker_ports::{AuditAction, ListQuery, PageSize, PortName, Repository};
use broker_testkit::faults::{Fault, FaultPlan};
use broker_tests::K;
use broker_tests::world::{NODE, SIZED, STANDALONE, World, declaration, operator};

fn request_id(request: &str) -> RequestId {
    RequestId::new(request).unwrap()
}

async fn stored_resources(world: &World) -> Vec<ProvisionedResource> {
    world.store.list(&ListQuery::new(PageSize::MAX)).await.unwrap().resources
}

fn count_refusals(world: &World) -> usize {
    let lines = world.store.audit_trail();
    lines.iter().filter(|line| line.entry.action == AuditAction::DeclarationRefused).count()
}

fn declared_values(resource: &ProvisionedResource) -> impl PartialEq + std::fmt::Debug {
    (
        (resource.project_id(), resource.resource_id()),
        (resource.blueprint_version_id(), resource.cloud_credential_id()),
        (resource.parameters().as_json().to_owned(), resource.on_failure()),
    )
}

#[tokio::test]
async fn replacement_of_a_machine_with_expired_token_enrols() {
    let world = World::new();
    let sized = declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let old = world.declare_until(Phase::Enrolling, &sized.on_failure(OnFailure::Rollback)).await;
    world.clock.advance(Duration::from_mins(61));
    let explained = world.explain(old.id()).await;
    assert_eq!(explained.verdict, Verdict::TokenExpired);
    let command = explained.action.command();
    assert_eq!(command, Some(format!("provisioning-broker replace {}", old.id())));

    let new = world.service.replace(&operator(), old.id(), None).await.unwrap();
    assert_ne!(new.id(), old.id());
    assert_eq!((new.phase(), declared_values(&new)), (Phase::Pending, declared_values(&old)));
    assert_eq!(new.parameters().as_json(), r#"{"count":1,"size":"small"}"#);
    for _ in 0..K {
        assert_eq!(world.round_of(&[old.id(), new.id()]).await.len(), 0);
    }
    let phases = (world.get(old.id()).await.phase(), world.get(new.id()).await.phase());
    assert_eq!(phases, (Phase::Deleted, Phase::Ready));
    let left = world.existing_objects();
    assert!(left.contains(&world.xr(&new)) && !left.contains(&world.xr(&old)), "{left:?}");
    let lines = world.store.audit_trail();
    let line = lines.iter().find(|line| line.entry.action == AuditAction::Replaced).unwrap();
    assert_eq!(line.entry.resource, Some(old.id()));
    assert_eq!(line.entry.event_data, Some(new.id().to_string()), "the replacement is named");
}

#[tokio::test]
async fn replace_of_a_deleted_resource_is_refused() {
    let world = World::new();
    let old = world.declare(&declaration(NODE)).await.unwrap();
    world.service.deprovision(&operator(), old.id()).await.unwrap();
    let old = world.until(old.id(), Phase::Deleted).await;
    let refused = world.service.replace(&operator(), old.id(), None).await.unwrap_err();
    let expected = "phase: is Deleted, so there is nothing left to replace; use provision instead";
    assert_eq!(one_line(&refused), expected);
    assert_eq!(world.get(old.id()).await, old);
    assert_eq!((stored_resources(&world).await.len(), count_refusals(&world)), (1, 1));
}

#[tokio::test]
async fn replace_with_a_used_request_id_is_refused() {
    let world = World::new();
    let (own, other, equal) = (request_id("order-1"), request_id("order-2"), request_id("order-3"));
    let old = world.declare(&declaration(NODE).with_request_id(own.clone())).await.unwrap();
    world.declare(&declaration(STANDALONE).with_request_id(other.clone())).await.unwrap();
    world.declare(&declaration(NODE).with_request_id(equal.clone())).await.unwrap();
    for (request, expected) in [
        (
            own,
            "request_id: order-1 was used for another resource; pass a different request id, or none",
        ),
        (other, "request id order-2 was already used in project"),
        (
            equal,
            "request_id: order-3 was used for another resource; pass a different request id, or none",
        ),
    ] {
        let refused = world.service.replace(&operator(), old.id(), Some(request)).await;
        let refused = one_line(&refused.unwrap_err());
        assert!(refused.starts_with(expected), "{refused}");
    }
    assert_eq!(world.get(old.id()).await, old);
    assert_eq!((stored_resources(&world).await.len(), count_refusals(&world)), (3, 3));
}

/// The old resource is read before a pass changed it.
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
    let replacement: Pin<Box<dyn Future<Output = _> + Send>> =
        Box::pin(service.replace(&caller, old, None));
    let new = replacement.await.unwrap();
    let calls = faults.calls();
    assert_eq!(calls.get(&(PortName::Repository, "replace")), Some(&2), "the first was stale");
    assert_eq!(world.get(old).await.phase(), Phase::Deregistering);
    assert_eq!(world.get(new.id()).await.phase(), Phase::Pending);
    assert_eq!(stored_resources(&world).await.len(), 2);
}
