//! Scenes on the way down, and at its end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, Phase};
use broker_memory::{Behaviour, Part};
use broker_ports::{NodeDeregistrar, PortError, PortName};
use broker_testkit::faults::{Fault, FaultPlan, Faults};
use broker_tests::world::{World, operator};

use super::super::scene::Scene;
use super::{leaving, ready};

/// More than the budget of any phase of a teardown.
const TOO_LONG: Duration = Duration::from_mins(31);

/// The provider takes its time.
pub(super) async fn slow() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.behave_for(resource.id(), Behaviour::ready_after(0).finalizing_after(6));
    world.cluster.tick();
    deprovisioning(world, resource.id()).await
}

async fn deprovisioning(world: World, id: broker_domain::ProvisionedResourceId) -> Scene {
    world.service.deprovision(&operator(), id).await.unwrap();
    let resource = world.until(id, Phase::Deprovisioning).await;
    world.round(id).await.unwrap();
    Scene::new(world, &resource)
}

pub(super) async fn deleted() -> Scene {
    let (world, resource) = ready().await;
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
    let resource = world.until(resource.id(), Phase::Deleted).await;
    Scene::new(world, &resource)
}

pub(super) async fn abandoned() -> Scene {
    let scene = leaving().await;
    let given_up = scene.world.service.abandon(&operator(), scene.id, "the cloud is gone").await;
    assert_eq!(given_up.unwrap().phase(), Phase::Deleted);
    scene
}

pub(super) async fn mesh_unreachable() -> Scene {
    let scene = leaving().await;
    scene.world.mesh.set_reachable(false);
    scene
}

/// The mesh answers questions, and drains nobody.
pub(super) async fn deregistration_failed() -> Scene {
    let scene = leaving().await;
    let plan = FaultPlan::none().from_call(
        PortName::NodeDeregistrar,
        "deregister",
        1,
        Fault::BeforeEffect,
    );
    let faults = Faults::new(plan);
    let replica = scene.world.replica_with("replica-1", |ports| {
        ports.nodes = faults.around::<dyn NodeDeregistrar>(Arc::clone(&ports.nodes));
    });
    let scene = scene.worked_on_by(replica);
    scene.replica.reconcile(scene.id).await.unwrap_err();
    scene
}

/// Says that it drained, and did not.
struct Liar;

#[async_trait]
impl NodeDeregistrar for Liar {
    async fn deregister(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        Ok(())
    }

    async fn node_registered(&self, _: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(true)
    }
}

pub(super) async fn peer_will_not_drain() -> Scene {
    let scene = leaving().await;
    let replica = scene.world.replica_with("replica-1", |ports| ports.nodes = Arc::new(Liar));
    let scene = scene.worked_on_by(replica).seen_by(|ports, _| ports.nodes = Arc::new(Liar));
    scene.rounds(2).await;
    scene.world.clock.advance(TOO_LONG);
    scene
}

pub(super) async fn usage() -> Scene {
    let (world, resource) = ready().await;
    let xr = world.xr(&resource);
    world.cluster.veto(&xr, "This resource is in-use by 1 usage(s), including the Usage \"db\"");
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
    let scene = Scene::new(world, &resource);
    scene.rounds(4).await;
    scene
}

pub(super) async fn foreign_finalizer() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.hold(&world.xr(&resource), "example.org/backup");
    deprovisioning(world, resource.id()).await
}

/// The provider does not run, and nobody but it can let go.
pub(super) async fn composed_remains() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.stop(Part::Provider);
    let scene = deprovisioning(world, resource.id()).await;
    scene.world.cluster.settle(5);
    scene.world.clock.advance(TOO_LONG);
    scene
}

/// Crossplane does not run: what was composed goes, the composite resource stays.
pub(super) async fn composite_remains() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.stop(Part::Crossplane);
    let scene = deprovisioning(world, resource.id()).await;
    scene.world.cluster.settle(8);
    scene.world.clock.advance(TOO_LONG);
    scene
}
