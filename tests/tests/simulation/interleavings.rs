//! The interleavings that justify each rule of the protocol, one test each.
//!
//! A worker is cut off by dropping its pass while a request hangs; the request continues without it
//! and arrives when the test releases it.

use std::time::Duration;

use broker_app::Reconciler;
use broker_domain::{EventType, ObjectReference, Phase, ProvisionedResource};
use broker_ports::{
    AuditAction, ClaimRequest, ClaimTarget, NodeDeregistrar, Outbox, PortName, Repository, Schedule,
};
use broker_testkit::builders::{rows, worker};
use broker_testkit::faults::{DuplicateResponse, Fault, FaultPlan, LateArrival};
use broker_tests::world::{LEASE, NODE, World, declaration, operator};
use serde_json::Value;
use tokio::time::timeout;

/// Outlasts every timeout; the request arrives when the test releases it.
const LATE: Fault = Fault::Delay { by: Duration::from_hours(1), late: LateArrival::Completes };

/// The position of each apply in a first pass.
const SHELL: u64 = 2;
const ARM: u64 = 3;

fn world_with_fault(port: PortName, method: &'static str, nth: u64, fault: Fault) -> World {
    World::with_faults(FaultPlan::none().on(port, method, nth, fault))
}

/// A resource whose first worker is cut off while its request is in flight. The lease has ended.
async fn cut_off(world: &World) -> ProvisionedResource {
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    cut_off_pass(world, &declared).await;
    declared
}

async fn cut_off_pass(world: &World, resource: &ProvisionedResource) {
    timeout(Duration::from_secs(1), world.reconciler.reconcile(resource.id())).await.unwrap_err();
    assert_eq!(world.faults.pending_requests(), 1, "{}", world.faults.log());
    world.expire_leases();
}

fn xr(world: &World, resource: &ProvisionedResource) -> Value {
    world.cluster.object(&world.xr(resource)).expect("the composite resource exists")
}

async fn event_types(world: &World, resource: &ProvisionedResource) -> Vec<EventType> {
    let mut events = Vec::new();
    loop {
        let request = broker_ports::ClaimEvents::new(worker("reader"), rows(10), LEASE);
        let claimed = world.store.claim_events(&request).await.unwrap();
        if claimed.is_empty() {
            return events;
        }
        for event in claimed {
            let _outcome = world.store.acknowledge_event(&event.claim).await.unwrap();
            assert_eq!(event.resource, resource.id());
            assert_eq!(event.sequence, events.len() as u64 + 1);
            events.push(event.event_type);
        }
    }
}

/// Asserts that at most one token is live, and that the machine has the row's token.
async fn expect_ready_with_one_token(
    world: &World,
    replica: &Reconciler,
    resource: &ProvisionedResource,
) {
    for _ in 0..6 {
        replica.reconcile(resource.id()).await.unwrap();
        world.cluster.tick();
        world.boot_agents();
    }
    let row = world.get(resource.id()).await;
    assert_eq!(row.phase(), Phase::Ready);
    let armed = xr(world, &row).pointer("/metadata/annotations/plexsphere.io~1armed").cloned();
    let token = row.bootstrap_token_id().unwrap();
    assert_eq!(armed.unwrap(), token.to_string());
    assert!(world.mesh.consumer(token).is_some(), "the machine enrolled with the row's token");
    assert_eq!(world.tokens.live_token(row.id()), None, "exactly one token was consumed");
}

/// Found by the model check: a repeated issue invalidated the token of the first, whose response
/// was returned. The machine armed with it could never enrol.
#[tokio::test(start_paused = true)]
async fn repeated_issue_arms_nothing_with_a_dead_token() {
    let repeated = Fault::Duplicate { response: DuplicateResponse::First };
    let world = world_with_fault(PortName::TokenIssuer, "issue", 1, repeated);
    let resource = world.declare(&declaration(NODE)).await.unwrap();
    let error = world.reconciler.reconcile(resource.id()).await.unwrap_err();
    assert_eq!(error.reason(), "token_issuer_unknown");
    assert_eq!(xr(&world, &resource).pointer("/metadata/annotations/plexsphere.io~1armed"), None);
    expect_ready_with_one_token(&world, &world.replica("replica-2"), &resource).await;
}

#[tokio::test(start_paused = true)]
async fn late_shell_of_a_taken_name_changes_nothing() {
    let world = world_with_fault(PortName::Cluster, "apply", SHELL, LATE);
    let resource = cut_off(&world).await;
    let other = world.replica("replica-2");
    other.reconcile(resource.id()).await.unwrap();
    let before = xr(&world, &resource);
    assert_eq!(world.faults.complete_pending().await, 1);
    assert_eq!(xr(&world, &resource), before, "the late shell changes nothing");
    expect_ready_with_one_token(&world, &other, &resource).await;
}

#[tokio::test(start_paused = true)]
async fn late_shell_that_arrives_first_composes_nothing() {
    let world = world_with_fault(PortName::Cluster, "apply", SHELL, LATE);
    let resource = cut_off(&world).await;
    assert_eq!(world.faults.complete_pending().await, 1);
    world.cluster.settle(5);
    assert_eq!(world.existing_objects().len(), 2, "the XR and its ProviderConfig");
    let shell = xr(&world, &resource);
    let other = world.replica("replica-2");
    other.reconcile(resource.id()).await.unwrap();
    let uid = |xr: &Value| xr.pointer("/metadata/uid").cloned();
    assert_eq!(uid(&xr(&world, &resource)), uid(&shell), "the shell is reused, not replaced");
    expect_ready_with_one_token(&world, &other, &resource).await;
}

#[tokio::test(start_paused = true)]
async fn late_arm_after_the_touch_is_stale() {
    let world = world_with_fault(PortName::Cluster, "apply", ARM, LATE);
    let resource = cut_off(&world).await;
    // The next worker gets as far as its touch and is cut off too.
    let plan = FaultPlan::none().on(PortName::TokenIssuer, "issue", 1, LATE);
    let faults = broker_testkit::faults::Faults::new(plan);
    let tokens = faults.wrap(world.ports.tokens.clone());
    let second = world.replica_with("replica-2", |ports| ports.tokens = tokens);
    timeout(Duration::from_secs(1), second.reconcile(resource.id())).await.unwrap_err();
    let touched = xr(&world, &resource);
    assert_eq!(world.faults.complete_pending().await, 1);
    assert_eq!(xr(&world, &resource), touched, "the touch alone made the arm stale");
    world.expire_leases();
    let third = world.replica("replica-3");
    third.reconcile(resource.id()).await.unwrap();
    assert_eq!(faults.complete_pending().await, 1);
    expect_ready_with_one_token(&world, &third, &resource).await;
}

#[tokio::test(start_paused = true)]
async fn late_issue_after_close_leaves_no_token() {
    let world = world_with_fault(PortName::TokenIssuer, "issue", 1, LATE);
    let resource = cut_off(&world).await;
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
    world.until(resource.id(), Phase::Deleted).await;
    assert_eq!(world.faults.complete_pending().await, 1);
    assert_eq!(world.tokens.live_token(resource.id()), None, "a closed resource gets no token");
}

#[tokio::test(start_paused = true)]
async fn node_enrolled_during_teardown_is_deregistered() {
    // The machine enrols after the deletion was accepted and before the tokens are closed.
    let world = World::new();
    let resource = world.declare_until(Phase::Enrolling, &declaration(NODE)).await;
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
    world.boot_agents();
    let token = resource.bootstrap_token_id().unwrap();
    assert!(world.mesh.deregistrar().node_registered(token).await.unwrap());
    world.until(resource.id(), Phase::Deleted).await;
    assert!(world.mesh.consumer(token).unwrap().deregistered);
}

#[tokio::test(start_paused = true)]
async fn failed_close_ends_the_pass_before_any_read() {
    let world = world_with_fault(PortName::TokenIssuer, "close", 1, Fault::BeforeEffect);
    let resource = world.declare_until(Phase::Enrolling, &declaration(NODE)).await;
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
    let reads = |world: &World| world.faults.calls()[&(PortName::Cluster, "read")];
    let (before, existing) = (reads(&world), world.existing_objects());
    let error = world.reconciler.reconcile(resource.id()).await.unwrap_err();
    assert_eq!(error.reason(), "token_issuer_transient");
    assert_eq!(reads(&world), before, "a late Node could invalidate no observation");
    assert_eq!(world.existing_objects(), existing);

    world.boot_agents();
    world.until(resource.id(), Phase::Deleted).await;
    let history = world.store.history(resource.id()).await.unwrap();
    let position = |action| history.iter().position(|line| line.entry.action == action).unwrap();
    assert!(position(AuditAction::TokensClosedRecorded) < position(AuditAction::NodeDeregister));
    assert!(position(AuditAction::NodeDeregister) < position(AuditAction::SubstrateDelete));
}

#[tokio::test(start_paused = true)]
async fn composed_objects_of_a_lost_xr_stay_recorded() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let old = ready.substrate().composed().first().unwrap().clone();
    world.cluster.add_finalizer(&old, "example.org/held");
    world.cluster.delete_in_background(&world.xr(&ready));
    world.until(ready.id(), Phase::Pending).await;
    let recreated = world.until(ready.id(), Phase::Ready).await;
    let composed: Vec<&ObjectReference> = recreated.substrate().composed().iter().collect();
    assert_eq!(composed.len(), 2, "the old object survives");
    assert!(composed.contains(&&old));

    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    for _ in 0..12 {
        world.round(ready.id()).await.unwrap();
    }
    assert_eq!(
        world.get(ready.id()).await.phase(),
        Phase::Deprovisioning,
        "the ProviderConfig is deleted after the old object"
    );
    let config = recreated.substrate().provider_config().unwrap();
    assert!(world.cluster.exists(config), "its provider may still need the ProviderConfig");
    world.cluster.remove_finalizer(&old, "example.org/held");
    world.until(ready.id(), Phase::Deleted).await;
    assert_eq!(world.existing_objects(), []);
}

#[tokio::test(start_paused = true)]
async fn write_after_a_takeover_is_rejected() {
    for (method, nth) in [("record_substrate", 1), ("record_token", 1), ("update_phase", 1)] {
        let world = world_with_fault(PortName::Repository, method, nth, LATE);
        let resource = world.declare(&declaration(NODE)).await.unwrap();
        // Passes until the delayed write is sent.
        for _ in 0..6 {
            let pass = world.reconciler.reconcile(resource.id());
            if timeout(Duration::from_secs(1), pass).await.is_err() {
                break;
            }
            world.cluster.tick();
        }
        assert_eq!(world.faults.pending_requests(), 1, "{method}");
        world.expire_leases();
        // The next worker holds the lease and has written nothing yet: the version check alone
        // would accept the write.
        let target = ClaimTarget::One(resource.id());
        let request = ClaimRequest::new(worker("replica-2"), target, LEASE);
        assert_eq!(world.store.claim(&request).await.unwrap().len(), 1);
        let before = world.get(resource.id()).await;
        assert_eq!(world.faults.complete_pending().await, 1);
        assert_eq!(world.get(resource.id()).await, before, "{method}: a lost lease writes nothing");

        world.expire_leases();
        let third = world.replica("replica-3");
        expect_ready_with_one_token(&world, &third, &resource).await;
        assert_eq!(event_types(&world, &resource).await, [EventType::Requested, EventType::Ready]);
    }
}
