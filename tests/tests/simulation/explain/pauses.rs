//! What Crossplane said about a pause stays on an object until it looks again, and is no failure when the pause is over.

use broker_app::explain::Verdict;
use broker_domain::Phase;
use broker_memory::{Behaviour, Part, Verb};
use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan};
use broker_tests::world::{NODE, World, declaration, operator};
use serde_json::json;

use super::scene::Scene;
use super::scenes::{self, Place};

/// The third apply of a resource: after its ProviderConfig and its shell.
const ARM: u64 = 3;

/// The shell's own pause: Crossplane saw it, and was gone when it was armed.
#[tokio::test]
async fn an_armed_shell_that_crossplane_did_not_look_at_again_is_on_its_way() {
    let late = FaultPlan::none().on(PortName::Cluster, "apply", ARM, Fault::BeforeEffect);
    let world = World::with_faults(late);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.round(declared.id()).await.unwrap_err();
    world.cluster.stop(Part::Crossplane);
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    let scene = Scene::new(world, &resource);
    assert_eq!(scene.synced().await, json!("ReconcilePaused"), "it has not looked again");
    let told = scene.explain().await;
    assert_eq!(told.verdict, Verdict::Provisioning, "{told}");
    scene.world.cluster.start(Part::Crossplane);
    scene.world.until(scene.id, Phase::Ready).await;
}

/// Somebody's pause on the way up and on one that is Ready: told while it lasts, and not when it is over.
#[tokio::test]
async fn a_pause_is_told_until_it_is_over() {
    let composing = scenes::at(Place::Composing(Behaviour::ready_after(9))).await;
    let ready = scenes::of(Verdict::Ready).await;
    for (scene, calm) in [(composing, Verdict::Provisioning), (ready, Verdict::Ready)] {
        let (xr, cluster) = (scene.xr().await, &scene.world.cluster);
        cluster.pause(&xr);
        cluster.tick();
        let told = scene.explain().await;
        assert_eq!(told.verdict, Verdict::PausedOnCluster, "{told}");
        cluster.stop(Part::Crossplane);
        cluster.unpause(&xr);
        assert_eq!(scene.synced().await, json!("ReconcilePaused"), "it has not looked again");
        let told = scene.explain().await;
        assert_eq!(told.verdict, calm, "{told}");
    }
}

/// A namespace that is being deleted loses the broker's `RoleBinding` first. That is no missing role.
#[tokio::test]
async fn forbidden_read_in_an_ending_namespace_names_the_namespace() {
    let scene = scenes::of(Verdict::Ready).await;
    let (world, xr) = (&scene.world, scene.xr().await);
    world.service.deprovision(&operator(), scene.id).await.unwrap();
    world.cluster.hold(&xr, "example.org/held");
    world.cluster.terminate_namespace(xr.namespace().unwrap());
    world.cluster.forbid(Verb::Get, xr.kind());
    while world.round(scene.id).await.is_ok() {}
    let told = scene.explain().await;
    assert_eq!(told.verdict, Verdict::NamespaceTerminating, "{told}");
}
