//! Scenes in which the Node does not come, or is gone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use broker_domain::Phase;
use broker_ports::{NodeDeregistrar, TokenIssuer};

use super::super::scene::Scene;
use super::{calm, ready};

/// The machine is up, its agent does not call, and somebody thinks that a minute is enough for it.
pub(super) async fn never_called() -> Scene {
    let scene = unheard_of().await;
    scene.world.clock.advance(Duration::from_mins(2));
    scene.seen_by(|_, config| config.budgets.enrolling = Duration::from_mins(1))
}

pub(super) async fn expired() -> Scene {
    let scene = unheard_of().await;
    scene.world.clock.advance(Duration::from_mins(61));
    scene
}

pub(super) async fn invalid() -> Scene {
    let scene = unheard_of().await;
    scene.world.tokens.close(scene.id).await.unwrap();
    scene
}

async fn unheard_of() -> Scene {
    let scene = calm(Phase::Enrolling).await;
    scene.world.agents_boot.store(false, Ordering::Relaxed);
    scene
}

/// Somebody took its Node out of the mesh.
pub(super) async fn node_lost() -> Scene {
    let (world, resource) = ready().await;
    let token = resource.bootstrap_token_id().unwrap();
    world.mesh.deregistrar().deregister(token).await.unwrap();
    Scene::new(world, &resource)
}
