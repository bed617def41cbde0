//! A pass without progress releases its lease with an error on the schedule and with back-off.

use broker_app::{PassResult, decide::EarlyExit};
use broker_domain::ProvisionedResourceId;
use broker_memory::Behaviour;
use broker_ports::{ClaimRequest, ClaimTarget, PortName, Schedule, ScheduleEntry, WorkerId};
use broker_testkit::faults::{Fault, FaultPlan};
use broker_tests::world::{LEASE, NODE, World, declaration};
use serde_json::json;

async fn entry(world: &World, id: ProvisionedResourceId) -> ScheduleEntry {
    world.store.entry(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn pass_over_a_stale_row_backs_off() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::never_ready());
    world.round(declared.id()).await.unwrap();
    // The XR is armed with a token that the row does not have.
    let armed = "00000000-0000-0000-0000-0000000000ff";
    let edit = json!({"metadata": {"annotations": {"plexsphere.io/armed": armed}}});
    world.cluster.patch_as("a person", &world.xr(&declared), &edit);
    for attempts in 1..=3 {
        let passed = world.round(declared.id()).await.unwrap();
        assert_eq!(passed, PassResult::EndedEarly(EarlyExit::StaleRow));
        let entry = entry(&world, declared.id()).await;
        let reason = entry.last_error.as_ref().map(|(reason, _)| reason.as_str());
        assert_eq!((entry.attempts, reason), (attempts, Some("stale_row")), "{entry:?}");
        assert!(entry.due_at.is_some(), "no hint announces the row that the pass waits for");
        assert_eq!(entry.lease, None);
    }
}

/// One pass that cannot read its row: the lease is released and the error is on the schedule.
async fn assert_released_with_error(world: &World, id: ProvisionedResourceId) {
    let error = world.reconciler.reconcile(id).await.unwrap_err();
    let entry = entry(world, id).await;
    let reason = entry.last_error.as_ref().map(|(reason, _)| reason.as_str());
    assert_eq!((entry.attempts, reason), (1, Some(error.reason())), "{entry:?}");
    assert_eq!(entry.lease, None);
    let worker = WorkerId::new("replica-2").unwrap();
    let request = ClaimRequest::new(worker, ClaimTarget::One(id), LEASE);
    let leases = world.store.claim(&request).await.unwrap();
    let [lease] = &leases[..] else { panic!("{leases:?}") };
    assert!(!lease.takeover, "the pass kept its lease: {lease:?}");
}

#[tokio::test]
async fn unreadable_row_is_released_with_its_error() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    assert!(world.store.corrupt(declared.id()));
    assert_released_with_error(&world, declared.id()).await;
}

#[tokio::test]
async fn row_whose_read_fails_is_released_with_its_error() {
    let plan = FaultPlan::none().on(PortName::Repository, "get_by_id", 1, Fault::BeforeEffect);
    let world = World::with_faults(plan);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    assert_released_with_error(&world, declared.id()).await;
    assert_eq!(world.faults.log().entries().len(), 1, "{}", world.faults.log());
}
