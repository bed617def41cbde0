//! Scenes in which Crossplane, a provider or somebody with kubectl is the matter.

use std::time::Duration;

use broker_domain::{ObjectReference, Phase};
use broker_memory::{Behaviour, Part};
use broker_render::{BLUEPRINT_VERSION_LABEL, namespace};
use broker_tests::world::{NODE, World, declaration, project};
use serde_json::json;

use super::super::scene::Scene;
use super::{composing, ready};

/// More than the budget of Provisioning.
const TOO_LONG: Duration = Duration::from_mins(31);

pub(super) async fn composite_missing() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.delete_in_background(&world.xr(&resource));
    world.cluster.settle(20);
    Scene::new(world, &resource)
}

pub(super) async fn paused() -> Scene {
    let scene = composing(Behaviour::ready_after(9)).await;
    let xr = scene.xr().await;
    scene.world.cluster.pause(&xr);
    scene.world.cluster.settle(12);
    scene
}

/// What it composed is ready, and Crossplane does not look at it any more.
pub(super) async fn composite_not_ready() -> Scene {
    let scene = composing(Behaviour::ready_after(3)).await;
    scene.world.cluster.stop(Part::Crossplane);
    scene.world.cluster.settle(12);
    scene.world.clock.advance(TOO_LONG);
    scene
}

/// The provider does not run.
pub(super) async fn provider_silent() -> Scene {
    let world = World::new();
    world.cluster.stop(Part::Provider);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    world.cluster.settle(5);
    world.clock.advance(Duration::from_mins(3));
    Scene::new(world, &resource)
}

pub(super) async fn provider_config_missing() -> Scene {
    let behaviour = Behaviour::ready_after(9).needing_provider_config();
    let scene = composing(behaviour).await;
    let config = provider_config(&scene.resource().await.xr_name().to_string());
    scene.world.cluster.delete_in_background(&config);
    scene.world.cluster.settle(3);
    scene
}

fn provider_config(name: &str) -> ObjectReference {
    let home = namespace(project());
    let (api_version, kind) = ("hetzner.crossplane.io/v1beta1", "ProviderConfig");
    ObjectReference::new(api_version, kind, name, Some(home.as_str())).unwrap()
}

/// Ready, and an operator changed a label of its composite resource.
pub(super) async fn drifted() -> Scene {
    let (world, resource) = ready().await;
    let change = json!({"metadata": {"labels": {BLUEPRINT_VERSION_LABEL: "another"}}});
    world.cluster.patch_as("kubectl", &world.xr(&resource), &change);
    Scene::new(world, &resource)
}

/// Ready, and a function began to fail.
pub(super) async fn degraded() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.behave_for(resource.id(), Behaviour::unsynced("function-x is gone"));
    world.cluster.settle(3);
    Scene::new(world, &resource)
}

/// Somebody deletes it while Crossplane is slow to let go.
pub(super) async fn being_deleted() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.stop(Part::Crossplane);
    world.cluster.delete_in_background(&world.xr(&resource));
    Scene::new(world, &resource)
}
