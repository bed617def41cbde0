//! Two causes at once: the verdict is the one whose removal lets the resource go on.
//!
//! Each row is laid twice over. Taking the other cause away leaves the verdict as it is; taking the verdict's
//! away lets the resource go on, to its end or to the other cause.

use broker_app::explain::Verdict;
use broker_domain::{ClusterId, OnFailure, Phase};
use broker_memory::{Behaviour, Verb};
use broker_ports::{BrakeRelease, CloudView, Resume, Schedule};
use broker_render::{Provider, namespace};
use broker_testkit::builders::id;
use broker_tests::world::{NODE, World, declaration, operator, project};

use super::scene::Scene;
use super::scenes::{poison, pull_brake};

/// Where the resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Declared,
    Composing,
    Leaving,
    Going,
}

/// Something that can be the matter, and be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    PausedHere,
    Brake,
    NamespaceNotReady,
    NamespaceAbsent,
    KindMissing,
    ClusterDown,
    LoggedOut,
    WrongCluster,
    Forbidden,
    Webhook,
    CredentialMissing,
    CloudMissing,
    NeighboursDown,
    Function,
    Stuck,
    Quota,
    PausedOnCluster,
    Poisoned,
    Usage,
    Finalizer,
    MeshDown,
}

impl Cause {
    const fn verdict(self) -> Verdict {
        match self {
            Self::PausedHere => Verdict::PausedHere,
            Self::Brake => Verdict::Brake,
            Self::NamespaceNotReady => Verdict::NamespaceNotReady,
            Self::NamespaceAbsent => Verdict::NamespaceAbsent,
            Self::KindMissing => Verdict::KindMissing,
            Self::ClusterDown => Verdict::ClusterUnreachable,
            Self::LoggedOut => Verdict::ClusterUnauthenticated,
            Self::WrongCluster => Verdict::WrongCluster,
            Self::Forbidden => Verdict::Forbidden,
            Self::Webhook => Verdict::WebhookRefused,
            Self::CredentialMissing => Verdict::CredentialMissing,
            Self::CloudMissing => Verdict::CloudMissing,
            Self::NeighboursDown => Verdict::CollaboratorUnreachable,
            Self::Function => Verdict::FunctionFailing,
            Self::Stuck => Verdict::ComposedNotReady,
            Self::Quota => Verdict::QuotaExceeded,
            Self::PausedOnCluster => Verdict::PausedOnCluster,
            Self::Poisoned => Verdict::OutboxPoisoned,
            Self::Usage => Verdict::Usage,
            Self::Finalizer => Verdict::ForeignFinalizer,
            Self::MeshDown => Verdict::MeshUnreachable,
        }
    }

    async fn lay(self, scene: &Scene) {
        let world = &scene.world;
        let cluster = &world.cluster;
        match self {
            Self::PausedHere => world.service.pause(&operator(), scene.id).await.unwrap(),
            Self::Brake => pull_brake(world).await,
            Self::NamespaceNotReady => world.place(false),
            Self::NamespaceAbsent => cluster.terminate_namespace(namespace(project()).as_str()),
            Self::KindMissing => cluster.remove_kind("example.org/v1", "Machine"),
            Self::ClusterDown => cluster.take_down(),
            Self::LoggedOut => cluster.log_out(),
            Self::WrongCluster => cluster.swap_identity(ClusterId::new("another").unwrap()),
            Self::Forbidden => cluster.forbid(Verb::Patch, "Machine"),
            Self::Webhook => cluster.deny("Machine", "not today"),
            Self::CredentialMissing => world.neighbours.withdraw(project(), id(4)),
            Self::CloudMissing => world.neighbours.remove_cloud(id(0xc0)),
            Self::NeighboursDown => world.neighbours.set_reachable(false),
            Self::Function => cluster.behave_for(scene.id, Behaviour::unsynced("no function")),
            Self::Stuck => cluster.behave_for(scene.id, Behaviour::stuck("no image")),
            Self::Quota => cluster.behave_for(scene.id, Behaviour::stuck("quota exceeded")),
            Self::PausedOnCluster => cluster.pause(&scene.xr().await),
            Self::Poisoned => poison(world).await,
            Self::Usage => cluster.veto(&scene.xr().await, "in use by a Usage"),
            Self::Finalizer => cluster.hold(&scene.xr().await, "example.org/hold"),
            Self::MeshDown => world.mesh.set_reachable(false),
        }
        world.cluster.tick();
    }

    async fn lift(self, scene: &Scene) {
        let world = &scene.world;
        let cluster = &world.cluster;
        match self {
            Self::PausedHere => world.service.resume(&operator(), scene.id).await.unwrap(),
            Self::Brake => {
                // Past the service, which would look at the cluster first: it may be down.
                let here = ClusterId::new("kube-system-uid").unwrap();
                let by = operator().attribution().clone();
                let release = BrakeRelease::new(here, None, Vec::new(), by);
                world.store.release_brake(&release).await.unwrap();
            }
            Self::NamespaceNotReady => world.place(true),
            Self::NamespaceAbsent => cluster.create_namespace(namespace(project()).as_str()),
            Self::KindMissing => {
                let none = r#"{"parameters":[]}"#;
                world.publish(NODE, "Machine", "machines", broker_domain::MeshRole::Node, none);
            }
            Self::ClusterDown => cluster.bring_back(),
            Self::LoggedOut => cluster.log_in(),
            Self::WrongCluster => {
                cluster.swap_identity(ClusterId::new("kube-system-uid").unwrap());
            }
            Self::Forbidden => cluster.allow_everything(),
            Self::Webhook => cluster.stop_denying("Machine"),
            Self::CredentialMissing => world.neighbours.assign(project(), id(4)),
            Self::CloudMissing => {
                let provider = Provider::new("hetzner").unwrap();
                world.neighbours.add_cloud(CloudView::new(id(0xc0), provider, "{}"));
            }
            Self::NeighboursDown => world.neighbours.set_reachable(true),
            Self::Function | Self::Stuck | Self::Quota => {
                cluster.behave_for(scene.id, Behaviour::ready_after(0));
            }
            Self::PausedOnCluster => cluster.unpause(&scene.xr().await),
            Self::Poisoned => {
                let service = &world.service;
                service.resume_events(&operator(), scene.id, Resume::Skip).await.unwrap();
            }
            Self::Usage => cluster.lift_veto(&scene.xr().await),
            Self::Finalizer => cluster.let_go(&scene.xr().await, "example.org/hold"),
            Self::MeshDown => world.mesh.set_reachable(true),
        }
    }
}

/// Why, where, the cause that decides, the other one.
const PAIRS: &[(&str, Base, Cause, Cause)] = {
    use Base::{Composing, Declared, Going, Leaving};
    use Cause::*;
    &[
        ("no pass looks at a paused one", Declared, PausedHere, Forbidden),
        ("nor at its namespace", Declared, PausedHere, NamespaceNotReady),
        ("nor at a cluster that is away", Declared, PausedHere, ClusterDown),
        ("references come before the namespace", Declared, CredentialMissing, NamespaceNotReady),
        ("the cluster comes before them", Declared, ClusterDown, CredentialMissing),
        ("and so does its kind", Declared, KindMissing, CredentialMissing),
        ("a credential comes before its cloud", Declared, CredentialMissing, CloudMissing),
        ("nobody to ask comes before the brake", Declared, NeighboursDown, Brake),
        ("a silent cluster hides its namespace", Declared, ClusterDown, NamespaceNotReady),
        ("and what the brake is about", Declared, ClusterDown, Brake),
        ("one that does not know us, too", Declared, LoggedOut, NamespaceAbsent),
        ("a kind comes before its objects' home", Declared, KindMissing, NamespaceNotReady),
        ("and before creating one", Declared, KindMissing, Brake),
        ("the brake holds for every namespace", Declared, Brake, NamespaceNotReady),
        ("nothing is sent into a closed namespace", Declared, NamespaceNotReady, Webhook),
        ("nor is one asked for that is not ready", Declared, NamespaceNotReady, NamespaceAbsent),
        ("events wait, a resource does not", Declared, Forbidden, Poisoned),
        ("whoever refuses it", Declared, Webhook, Poisoned),
        ("no pass looks at what Crossplane says", Composing, PausedHere, Function),
        ("a pass that applies needs its references", Composing, CredentialMissing, PausedOnCluster),
        ("and asks for the Node before them", Composing, MeshDown, CredentialMissing),
        ("another cluster's objects say nothing", Composing, WrongCluster, Function),
        ("a paused one is not composed", Composing, PausedOnCluster, Stuck),
        ("events are no part of the substrate", Composing, Function, Poisoned),
        ("what stands needs no open namespace", Composing, Stuck, NamespaceNotReady),
        ("nor is it held by the brake", Composing, Function, Brake),
        ("whatever keeps it", Composing, Quota, Brake),
        ("a pass asks for the Node in any case", Composing, MeshDown, Stuck),
        ("events wait for nothing here", Going, Finalizer, Poisoned),
        ("a pause holds nothing that Crossplane let go of", Going, Finalizer, PausedOnCluster),
        ("a teardown needs no credential", Going, Finalizer, CredentialMissing),
        ("nor an open namespace", Going, Finalizer, NamespaceNotReady),
        ("a silent cluster hides the finalizer", Going, ClusterDown, Finalizer),
        ("the Node goes first", Leaving, MeshDown, Usage),
        ("a teardown is not held by the brake", Leaving, Usage, Brake),
    ]
};

async fn laid(base: Base, first: Cause, other: Cause) -> Scene {
    let world = World::new();
    let declared = declaration(NODE).on_failure(OnFailure::Retain);
    let phase = match base {
        Base::Declared => Phase::Pending,
        Base::Composing => Phase::Provisioning,
        Base::Leaving | Base::Going => Phase::Ready,
    };
    if base == Base::Composing {
        let xrd = broker_tests::world::xrd_of("Machine", "machines");
        world.cluster.behave(&xrd, Behaviour::never_ready());
    }
    let resource = world.brought_to(phase, &declared).await;
    let scene = Scene::new(world, &resource);
    if matches!(base, Base::Leaving | Base::Going) {
        if [first, other].contains(&Cause::Finalizer) {
            Cause::Finalizer.lay(&scene).await;
        }
        scene.world.service.deprovision(&operator(), scene.id).await.unwrap();
    }
    if base == Base::Going {
        scene.world.until(scene.id, Phase::Deprovisioning).await;
        scene.world.round(scene.id).await.unwrap();
    }
    for cause in [other, first] {
        if cause != Cause::Finalizer {
            cause.lay(&scene).await;
        }
    }
    scene.rounds(3).await;
    scene
}

#[test]
fn there_are_enough_of_them() {
    assert!(PAIRS.len() >= 20, "{} pairs", PAIRS.len());
}

#[tokio::test]
async fn the_verdict_is_the_cause_whose_removal_lets_it_go_on() {
    for (why, base, first, other) in PAIRS.iter().copied() {
        let scene = Box::pin(laid(base, first, other)).await;
        let both = scene.explain().await;
        assert_eq!(both.verdict, first.verdict(), "{why}: {both}");

        other.lift(&scene).await;
        scene.rounds(2).await;
        let without_other = scene.explain().await;
        assert_eq!(without_other.verdict, first.verdict(), "{why}, without {other:?}");

        let scene = Box::pin(laid(base, first, other)).await;
        let phase = scene.resource().await.phase();
        first.lift(&scene).await;
        scene.rounds(4).await;
        let without_first = scene.explain().await;
        let moved = scene.resource().await.phase() != phase;
        let on_to_the_other = without_first.verdict == other.verdict();
        assert!(moved || on_to_the_other, "{why}, without {first:?}: {without_first}");
        assert_ne!(without_first.verdict, first.verdict(), "{why}: {without_first}");
    }
}
