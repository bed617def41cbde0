//! What the broker itself does or does not do, in a real store.

use std::sync::Arc;
use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::explain::{Budgets, Party, Verdict};
use broker_app::{Reconciler, Service};
use broker_domain::Phase;
use broker_ports::{
    BlueprintResolver, Brake, ClaimEvents, ClaimRequest, ClaimTarget, PortName, ReconcilerPorts,
    Repository, Resume, TokenIssuer,
};
use broker_testkit::builders::{rows, worker};
use broker_testkit::faults::{Fault, FaultPlan, Faults};
use broker_tests::real::{LEASE, RealWorld, reconciler_config};
use broker_tests::world::{NODE, operator};

use super::{assert_goes_on, assert_told};

#[tokio::test]
async fn what_stops_every_pass_is_told_and_goes_on_when_it_is_lifted() {
    let world = RealWorld::new().await;
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    let id = declared.id();
    assert_told(&world.explain(id).await, Verdict::Declared, Party::Nobody, "wait");

    world.service.pause(&operator(), id).await.unwrap();
    assert_told(&world.explain(id).await, Verdict::PausedHere, Party::Platform, "resume");
    world.service.resume(&operator(), id).await.unwrap();
    assert_goes_on(&world.explain(id).await);

    let dry: Service = world.service_with(|_| {}, |config| config.mode = Mode::DryRun);
    let explained = dry.explain(&operator(), id).await.unwrap();
    assert_told(&explained, Verdict::DryRun, Party::Platform, "leave_dry_run");

    let cluster = world.ports.cluster.identity().await.unwrap();
    let (context, now) = (operator(), world.ports.clock.now());
    let brake = Brake::new(9, 12, now);
    world.ports.schedule.set_brake(&cluster, &brake, context.attribution()).await.unwrap();
    assert_told(&world.explain(id).await, Verdict::Brake, Party::Platform, "release_brake");
    world.service.release_brake(&operator(), &cluster, None).await.unwrap();

    let mut impatient = Budgets::default();
    impatient.pending = Duration::ZERO;
    let alone = world.explain_within(id, impatient).await;
    assert_told(&alone, Verdict::NoReplica, Party::Platform, "start_replicas");

    let request = ClaimRequest::new(worker("doomed"), ClaimTarget::One(id), LEASE);
    assert_eq!(world.ports.schedule.claim(&request).await.unwrap().len(), 1);
    assert_told(&world.explain(id).await, Verdict::PassUnderWay, Party::Nobody, "wait");
    world.let_leases_end().await;
    assert_told(&world.explain(id).await, Verdict::LeaseLeftBehind, Party::Nobody, "wait");
    world.until(id, Phase::Ready).await;
    assert_told(&world.explain(id).await, Verdict::Ready, Party::Nobody, "wait");

    let request = ClaimEvents::new(worker("relay"), rows(10), Duration::from_secs(30));
    for event in world.ports.outbox.claim_events(&request).await.unwrap() {
        let _ = world.ports.outbox.set_aside_event(&event.claim, "HTTP 410").await.unwrap();
    }
    let poisoned = world.explain(id).await;
    assert_told(&poisoned, Verdict::OutboxPoisoned, Party::Platform, "resume_events");
    world.service.resume_events(&operator(), id, Resume::Skip).await.unwrap().unwrap();
    assert_goes_on(&world.explain(id).await);
}

#[tokio::test]
async fn passes_that_fail_and_sources_that_are_silent_are_told() {
    let world = RealWorld::new().await;
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    let id = declared.id();
    let dead = |port, method| {
        Faults::new(FaultPlan::none().from_call(port, method, 1, Fault::BeforeEffect))
    };
    let faults = dead(PortName::TokenIssuer, "issue");
    let mut ports = ReconcilerPorts::from(&world.ports);
    ports.tokens = faults.around::<dyn TokenIssuer>(Arc::clone(&ports.tokens));
    let replica = Reconciler::new(ports, reconciler_config("failing"));
    replica.reconcile(id).await.unwrap_err();
    assert_told(&world.explain(id).await, Verdict::PassFailing, Party::Platform, "mend_pass");
    world.until(id, Phase::Ready).await;

    let faults = dead(PortName::Repository, "get_by_id");
    let blind = world.service_with(
        |ports| ports.repository = faults.around::<dyn Repository>(Arc::clone(&ports.repository)),
        |_| {},
    );
    let explained = blind.explain(&operator(), id).await.unwrap();
    assert_told(&explained, Verdict::StoreUnreachable, Party::Platform, "restore_store");

    let faults = dead(PortName::BlueprintResolver, "resolve");
    let unheard = world.service_with(
        |ports| {
            let honest = Arc::clone(&ports.blueprints);
            ports.blueprints = faults.around::<dyn BlueprintResolver>(honest);
        },
        |_| {},
    );
    let explained = unheard.explain(&operator(), id).await.unwrap();
    let (verdict, action) = (Verdict::CollaboratorUnreachable, "restore_collaborator");
    assert_told(&explained, verdict, Party::Platform, action);
}
