//! A collaborator that hangs or is dead, on every port: a pass ends at its deadline and names the
//! port.

use std::time::Duration;

use broker_app::{Reconciler, one_line};
use broker_domain::{OnFailure, Phase, ProvisionedResource};
use broker_memory::Behaviour;
use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan, Late};
use broker_tests::world::{LEASE, NODE, World, background, declaration, operator};
use tokio::time::{Instant, timeout};

const HANGS: Fault = Fault::Delay { by: Duration::from_hours(24), late: Late::Never };
const DEAD: Fault = Fault::BeforeEffect;

#[derive(Debug, Clone, Copy)]
enum At {
    Declared,
    Composed,
    Ready,
    Leaving,
    Deprovisioning,
    Failed,
}

/// Every call of a pass, and the state in which it is made.
const CALLS: &[(PortName, &str, At)] = &[
    (PortName::Schedule, "claim", At::Declared),
    (PortName::Schedule, "release", At::Declared),
    (PortName::Schedule, "brakes", At::Declared),
    (PortName::Repository, "get_by_id", At::Declared),
    (PortName::Repository, "record_substrate", At::Declared),
    (PortName::Repository, "record_token", At::Declared),
    (PortName::Repository, "update_phase", At::Composed),
    (PortName::Repository, "record_closed", At::Leaving),
    (PortName::Repository, "record_deletion_intent", At::Failed),
    (PortName::BlueprintResolver, "resolve", At::Declared),
    (PortName::CredentialResolver, "resolve", At::Declared),
    (PortName::CloudResolver, "resolve", At::Declared),
    (PortName::LabelTagResolver, "resolve", At::Declared),
    (PortName::AssignmentReader, "read", At::Declared),
    (PortName::Cluster, "read", At::Declared),
    (PortName::Cluster, "apply", At::Declared),
    (PortName::Cluster, "delete", At::Deprovisioning),
    (PortName::TokenIssuer, "issue", At::Declared),
    (PortName::TokenIssuer, "close", At::Leaving),
    (PortName::NodeDeregistrar, "node_registered", At::Ready),
    (PortName::NodeDeregistrar, "deregister", At::Leaving),
    (PortName::AuditSink, "record", At::Declared),
];

fn words(port: PortName) -> String {
    format!("the {} failed", port.as_str().replace('_', " "))
}

/// Brings a resource into the state, with a fault-free replica.
async fn brought(world: &World, honest: &Reconciler, at: At) -> ProvisionedResource {
    let resource = world.declare(&declaration(NODE).on_failure(OnFailure::Rollback)).await.unwrap();
    let id = resource.id();
    if matches!(at, At::Failed) {
        world.cluster.behave_for(id, Behaviour::failing_after(1, "quota exceeded"));
    }
    let rounds = match at {
        At::Declared => 0,
        At::Composed => 1,
        At::Failed => 3,
        At::Ready | At::Leaving | At::Deprovisioning => 6,
    };
    for _ in 0..rounds {
        honest.reconcile(id).await.unwrap();
        world.cluster.tick();
        world.boot_agents();
    }
    if matches!(at, At::Leaving | At::Deprovisioning) {
        world.service.deprovision(&operator(), id).await.unwrap();
    }
    if matches!(at, At::Deprovisioning) {
        honest.reconcile(id).await.unwrap();
    }
    resource
}

#[tokio::test(start_paused = true)]
async fn one_pass_ends_at_its_deadline_and_names_the_port() {
    for (port, method, at) in CALLS.iter().copied() {
        for fault in [HANGS, DEAD] {
            let why = format!("{port}.{method} {fault}");
            let world = World::with_faults(FaultPlan::none().from_call(port, method, 1, fault));
            let resource = brought(&world, &world.replica("honest"), at).await;
            let pass = timeout(LEASE, world.reconciler.reconcile(resource.id()));
            let error = pass.await.unwrap_or_else(|_| panic!("{why}: hangs")).expect_err(&why);
            assert!(one_line(&error).contains(&words(port)), "{why}: {}", one_line(&error));
            let expected = match (port, method) {
                (PortName::NodeDeregistrar, "deregister") => "node_deregistration_failed",
                (port, _) => port.as_str(),
            };
            assert!(error.reason().starts_with(expected), "{why}: {}", error.reason());

            // With the collaborator back, everything proceeds.
            world.faults.heal();
            world.expire_leases();
            world.clock.advance(Duration::from_mins(10));
            let end = match at {
                At::Declared | At::Composed | At::Ready => Phase::Ready,
                At::Leaving | At::Deprovisioning | At::Failed => Phase::Deleted,
            };
            for _ in 0..8 {
                world.round(resource.id()).await.unwrap_or_else(|error| panic!("{why}: {error}"));
            }
            assert_eq!(world.get(resource.id()).await.phase(), end, "{why}");
        }
    }
}

/// Slightly shorter than every deadline.
const SLOW: Fault = Fault::Delay { by: Duration::from_millis(4_900), late: Late::Completes };

/// Each call answers within its own deadline; together they would outlast the lease.
#[tokio::test(start_paused = true)]
async fn an_act_ends_before_its_lease_does() {
    let calls = CALLS.iter().filter(|(_, method, _)| *method != "release");
    let plan = calls
        .fold(FaultPlan::none(), |plan, (port, method, _)| plan.from_call(*port, method, 1, SLOW));
    let world = World::with_faults(plan);
    let resource = world.declare(&declaration(NODE)).await.unwrap();
    let asked = Instant::now();
    world.reconciler.reconcile(resource.id()).await.unwrap_err();
    assert!(asked.elapsed() < LEASE, "{:?}", asked.elapsed());
    let xr = world.cluster.object(&world.xr(&resource));
    assert_eq!(xr, None, "nothing was begun that could not end in time");
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
            let trouble = probe.relay_error().unwrap();
            assert!(trouble.message.contains(&words(PortName::EventSink)), "{}", trouble.message);
            assert_eq!(probe.check(), Ok(()), "it is not the broker's own footing");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn labels_are_read_singly_when_the_batch_fails() {
    for fault in [HANGS, DEAD] {
        let plan =
            FaultPlan::none().from_call(PortName::LabelTagResolver, "resolve_many", 1, fault);
        let world = World::with_faults(plan);
        let resource = world.declare_until(Phase::Ready, &declaration(NODE)).await;
        let (work, report) = world.sweep().await;
        assert!(work.is_empty() && report.errors.is_empty(), "{fault}: {report:?}");
        assert_eq!((report.looked_at, report.settled), (1, 1), "{}", resource.id());
    }
}
