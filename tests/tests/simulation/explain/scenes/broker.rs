//! Scenes in which the broker itself is the matter.

use std::sync::Arc;
use std::time::Duration;

use broker_app::decide::Mode;
use broker_domain::Phase;
use broker_memory::Verb;
use broker_ports::{
    Brake, ClaimEvents, ClaimRequest, ClaimTarget, Clock, Outbox, PortName, Schedule, TokenIssuer,
};
use broker_testkit::builders::{id, rows, worker};
use broker_testkit::faults::{Fault, FaultPlan, Faults};
use broker_tests::world::{LEASE, NODE, World, declaration, operator};

use super::super::scene::Scene;
use super::{calm, ready};

/// So many failures in a row let a back-off be longer than the time that a test takes.
const FAILURES: usize = 8;

/// The cluster was away for some passes, and is back.
pub(super) async fn retry_pending() -> Scene {
    let scene = calm(Phase::Pending).await;
    // A replica that does not know its cluster would claim nothing.
    scene.replica.reconcile(id(0xdead)).await.unwrap();
    scene.world.cluster.take_down();
    for _ in 0..FAILURES {
        scene.replica.reconcile(scene.id).await.unwrap_err();
    }
    scene.world.cluster.bring_back();
    scene
}

/// Another replica holds it.
pub(super) async fn leased() -> Scene {
    let scene = calm(Phase::Pending).await;
    let request = ClaimRequest::new(worker("doomed"), ClaimTarget::One(scene.id), LEASE);
    assert_eq!(scene.world.store.claim(&request).await.unwrap().len(), 1);
    scene
}

/// Another replica held it, died, and its lease is over.
pub(super) async fn lease_left_behind() -> Scene {
    let scene = leased().await;
    scene.world.let_leases_end();
    scene.world.clock.advance(Duration::from_secs(1));
    scene
}

pub(super) async fn paused_here() -> Scene {
    let scene = calm(Phase::Provisioning).await;
    scene.world.service.pause(&operator(), scene.id).await.unwrap();
    scene
}

pub(super) async fn dry_run() -> Scene {
    let scene = calm(Phase::Pending).await;
    let replica = scene.world.replica_in_mode("dry", Mode::DryRun);
    scene.worked_on_by(replica).seen_by(|_, config| config.mode = Mode::DryRun)
}

pub(super) async fn brake() -> Scene {
    let scene = calm(Phase::Pending).await;
    pull_brake(&scene.world).await;
    scene
}

pub(in super::super) async fn pull_brake(world: &World) {
    let identity = broker_domain::ClusterId::new("kube-system-uid").unwrap();
    let brake = Brake::new(9, 12, world.clock.now());
    let context = operator();
    world.store.set_brake(&identity, &brake, context.attribution()).await.unwrap();
}

/// Nobody has looked at it for longer than it may take.
pub(super) async fn no_replica() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.clock.advance(Duration::from_mins(6));
    scene
}

/// The token issuer fails, whatever else works.
pub(super) async fn pass_failing() -> Scene {
    let scene = calm(Phase::Pending).await;
    let plan = FaultPlan::none().from_call(PortName::TokenIssuer, "issue", 1, Fault::BeforeEffect);
    let faults = Faults::new(plan);
    let replica = scene.world.replica_with("replica-1", |ports| {
        ports.tokens = faults.around::<dyn TokenIssuer>(Arc::clone(&ports.tokens));
    });
    let scene = scene.worked_on_by(replica);
    scene.replica.reconcile(scene.id).await.unwrap_err();
    scene
}

/// The receiver of events refuses the first one.
pub(super) async fn outbox_poisoned() -> Scene {
    let (world, resource) = ready().await;
    poison(&world).await;
    Scene::new(world, &resource)
}

pub(in super::super) async fn poison(world: &World) {
    let request = ClaimEvents::new(worker("relay"), rows(10), Duration::from_secs(30));
    for event in world.store.claim_events(&request).await.unwrap() {
        let taken = world.store.set_aside_event(&event.claim, "HTTP 410 Gone").await.unwrap();
        assert_eq!(taken, broker_ports::Acknowledged::Done);
    }
}

pub(super) async fn store_unreachable() -> Scene {
    let (world, resource) = ready().await;
    world.store.set_reachable(false);
    Scene::new(world, &resource)
}

pub(super) async fn collaborator_unreachable() -> Scene {
    let (world, resource) = ready().await;
    world.neighbours.set_reachable(false);
    Scene::new(world, &resource)
}

/// Whoever asks may not read the composite resource, and no pass has tried yet.
pub(super) async fn unknown() -> Scene {
    let world = World::new();
    let resource = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    world.cluster.forbid(Verb::Get, "Machine");
    Scene::new(world, &resource)
}
