//! Abandoning a teardown: when it succeeds, and the state after a failed attempt.

use broker_app::decide::Mode;
use broker_app::explain::Budgets;
use broker_domain::{ClusterId, Phase, ProvisionedResource};
use broker_ports::Schedule;
use broker_ports::{AuditAction, PortName};
use broker_testkit::faults::{Fault, FaultPlan};
use broker_tests::world::{NODE, World, declaration, operator};

async fn declare_and_delete() -> (World, ProvisionedResource) {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let deleting = world.service.deprovision(&operator(), ready.id()).await.unwrap();
    (world, deleting)
}

#[tokio::test]
async fn abandon_in_a_dry_run_is_refused() {
    let (world, deleting) = declare_and_delete().await;
    let service = world.service_of(Mode::DryRun, Budgets::default());
    let lines = world.store.audit_trail();
    let entry = world.store.entry(deleting.id()).await.unwrap();
    let error = service.abandon(&operator(), deleting.id(), "why not").await.unwrap_err();
    assert_eq!(error.reason(), "invalid_input");
    assert!(error.to_string().starts_with("mode: is dry-run"), "{error}");
    assert_eq!(world.get(deleting.id()).await, deleting);
    assert_eq!(world.store.audit_trail(), lines, "no token was closed");
    assert_eq!(world.store.entry(deleting.id()).await.unwrap(), entry, "nothing was claimed");
}

#[tokio::test]
async fn abandon_of_a_paused_resource_succeeds() {
    let (world, deleting) = declare_and_delete().await;
    world.service.pause(&operator(), deleting.id()).await.unwrap();
    let abandoned = world.service.abandon(&operator(), deleting.id(), "the cloud is gone").await;
    assert!(abandoned.unwrap().abandoned());
    assert_eq!(world.get(deleting.id()).await.phase(), Phase::Deleted);
    assert_eq!(world.store.entry(deleting.id()).await.unwrap().unwrap().lease, None);
}

/// The resource's cluster is lost, and with it every replica that would claim the resource.
#[tokio::test]
async fn abandon_on_a_lost_cluster_succeeds() {
    let (world, deleting) = declare_and_delete().await;
    world.cluster.swap_identity(ClusterId::new("rebuilt").unwrap());
    let abandoned = world.service.abandon(&operator(), deleting.id(), "the cluster is gone").await;
    assert!(abandoned.unwrap().abandoned());
}

#[tokio::test]
async fn failed_abandon_releases_its_lease() {
    let rows = [
        (PortName::AuditSink, "record"),
        (PortName::TokenIssuer, "close"),
        (PortName::Repository, "record_closed"),
        (PortName::Repository, "update_phase"),
    ];
    for (port, method) in rows {
        let (world, deleting) = declare_and_delete().await;
        let plan = FaultPlan::none().from_call(port, method, 1, Fault::BeforeEffect);
        let service = world.service_with(plan);
        let failed = service.abandon(&operator(), deleting.id(), "the cloud is gone").await;
        let reason = failed.unwrap_err().reason();
        let entry = world.store.entry(deleting.id()).await.unwrap().unwrap();
        assert_eq!(entry.lease, None, "{port}.{method}: {reason}");
        let retried = world.service.abandon(&operator(), deleting.id(), "the cloud is gone").await;
        assert!(retried.unwrap().abandoned(), "{port}.{method}");
        let lines = world.store.audit_trail();
        let audited = lines.iter().filter(|line| line.entry.action == AuditAction::Abandoned);
        assert_eq!(audited.count(), 1, "{port}.{method}");
    }
}
