//! A collaborator that hangs or is dead, on every port: a pass ends at its deadline and names the
//! port.

use std::time::Duration;

use broker_app::{Reconciler, one_line};
use broker_domain::{OnFailure, Phase, ProvisionedResource};
use broker_memory::Behaviour;
use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan, LateArrival};
use broker_tests::world::{LEASE, NODE, World, background, declaration, operator};
use tokio::time::{Instant, timeout};

const HANGS: Fault = Fault::Delay { by: Duration::from_hours(24), late: LateArrival::Never };
const DEAD: Fault = Fault::BeforeEffect;

#[derive(Debug, Clone, Copy)]
enum CallState {
    Declared,
    Composed,
    Ready,
    DeletionRequested,
    Deprovisioning,
    Failed,
}

/// Every call of a pass, and the state in which it is made.
const CALLS: &[(PortName, &str, CallState)] = &[
    (PortName::Schedule, "claim", CallState::Declared),
    (PortName::Schedule, "release", CallState::Declared),
    (PortName::Schedule, "brakes", CallState::Declared),
    (PortName::Repository, "get_by_id", CallState::Declared),
    (PortName::Repository, "record_substrate", CallState::Declared),
    (PortName::Repository, "record_token", CallState::Declared),
    (PortName::Repository, "update_phase", CallState::Composed),
    (PortName::Repository, "record_closed", CallState::DeletionRequested),
    (PortName::Repository, "record_deletion_intent", CallState::Failed),
    (PortName::BlueprintResolver, "resolve", CallState::Declared),
    (PortName::CredentialResolver, "resolve", CallState::Declared),
    (PortName::CloudResolver, "resolve", CallState::Declared),
    (PortName::ResourceReader, "read", CallState::Declared),
    (PortName::AssignmentReader, "read", CallState::Declared),
    (PortName::Cluster, "read", CallState::Declared),
    (PortName::Cluster, "apply", CallState::Declared),
    (PortName::Cluster, "delete", CallState::Deprovisioning),
    (PortName::TokenIssuer, "issue", CallState::Declared),
    (PortName::TokenIssuer, "close", CallState::DeletionRequested),
    (PortName::NodeDeregistrar, "node_registered", CallState::Ready),
    (PortName::NodeDeregistrar, "deregister", CallState::DeletionRequested),
    (PortName::AuditSink, "record", CallState::Declared),
];

fn failure_message(port: PortName) -> String {
    format!("the {} failed", port.as_str().replace('_', " "))
}

/// Brings a resource into the state, with a fault-free replica.
async fn bring_to(world: &World, healthy: &Reconciler, state: CallState) -> ProvisionedResource {
    let resource = world.declare(&declaration(NODE).on_failure(OnFailure::Rollback)).await.unwrap();
    let id = resource.id();
    if matches!(state, CallState::Failed) {
        world.cluster.behave_for(id, Behaviour::failing_after(1, "quota exceeded"));
    }
    let rounds = match state {
        CallState::Declared => 0,
        CallState::Composed => 1,
        CallState::Failed => 3,
        CallState::Ready | CallState::DeletionRequested | CallState::Deprovisioning => 6,
    };
    for _ in 0..rounds {
        healthy.reconcile(id).await.unwrap();
        world.cluster.tick();
        world.boot_agents();
    }
    if matches!(state, CallState::DeletionRequested | CallState::Deprovisioning) {
        world.service.deprovision(&operator(), id).await.unwrap();
    }
    if matches!(state, CallState::Deprovisioning) {
        healthy.reconcile(id).await.unwrap();
    }
    resource
}

#[tokio::test(start_paused = true)]
async fn one_pass_ends_at_its_deadline_and_names_the_port() {
    for (port, method, state) in CALLS.iter().copied() {
        for fault in [HANGS, DEAD] {
            let why = format!("{port}.{method} {fault}");
            let world = World::with_faults(FaultPlan::none().from_call(port, method, 1, fault));
            let resource = bring_to(&world, &world.replica("healthy"), state).await;
            let pass = timeout(LEASE, world.reconciler.reconcile(resource.id()));
            let error = pass.await.unwrap_or_else(|_| panic!("{why}: hangs")).expect_err(&why);
            assert!(
                one_line(&error).contains(&failure_message(port)),
                "{why}: {}",
                one_line(&error)
            );
            let expected = match (port, method) {
                (PortName::NodeDeregistrar, "deregister") => "node_deregistration_failed",
                (port, _) => port.as_str(),
            };
            assert!(error.reason().starts_with(expected), "{why}: {}", error.reason());

            // Once the collaborator responds, the resource proceeds.
            world.faults.heal();
            world.expire_leases();
            world.clock.advance(Duration::from_mins(10));
            let end = match state {
                CallState::Declared | CallState::Composed | CallState::Ready => Phase::Ready,
                CallState::DeletionRequested | CallState::Deprovisioning | CallState::Failed => {
                    Phase::Deleted
                }
            };
            for _ in 0..8 {
                world.round(resource.id()).await.unwrap_or_else(|error| panic!("{why}: {error}"));
            }
            assert_eq!(world.get(resource.id()).await.phase(), end, "{why}");
        }
    }
}

/// Slightly shorter than every deadline.
const SLOW: Fault = Fault::Delay { by: Duration::from_millis(4_900), late: LateArrival::Completes };

/// Each call returns within its own deadline; together they would outlast the lease.
#[tokio::test(start_paused = true)]
async fn act_with_slow_calls_ends_before_its_lease() {
    let calls = CALLS.iter().filter(|(_, method, _)| *method != "release");
    let plan = calls
        .fold(FaultPlan::none(), |plan, (port, method, _)| plan.from_call(*port, method, 1, SLOW));
    let world = World::with_faults(plan);
    let resource = world.declare(&declaration(NODE)).await.unwrap();
    let started = Instant::now();
    world.reconciler.reconcile(resource.id()).await.unwrap_err();
    assert!(started.elapsed() < LEASE, "{:?}", started.elapsed());
    let xr = world.cluster.object(&world.xr(&resource));
    assert_eq!(xr, None, "no effect begins that cannot end in time");
}

#[tokio::test(start_paused = true)]
async fn failing_sink_is_reported_and_stops_nothing_else() {
    for fault in [HANGS, DEAD] {
        let plan = FaultPlan::none().from_call(PortName::EventSink, "deliver", 1, fault);
        let world = World::with_faults(plan);
        let runner = world.runner();
        let probe = runner.probe();
        background(runner, async {
            let resource = world.declare(&declaration(NODE)).await.unwrap();
            for _ in 0..60 {
                world.let_time_pass().await;
            }
            assert_eq!(world.get(resource.id()).await.phase(), Phase::Ready);
            let error = probe.relay_error().unwrap();
            assert!(
                error.message.contains(&failure_message(PortName::EventSink)),
                "{}",
                error.message
            );
            assert_eq!(probe.check(), Ok(()), "a failing sink is not a failure of the broker");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn resources_are_read_singly_when_the_batch_fails() {
    for fault in [HANGS, DEAD] {
        let plan = FaultPlan::none().from_call(PortName::ResourceReader, "read_many", 1, fault);
        let world = World::with_faults(plan);
        let resource = world.declare_until(Phase::Ready, &declaration(NODE)).await;
        let (work, report) = world.sweep().await;
        assert!(work.is_empty() && report.errors.is_empty(), "{fault}: {report:?}");
        assert_eq!((report.looked_at, report.settled), (1, 1), "{}", resource.id());
    }
}
