//! One scene for each verdict: where the resource is, and what is laid in its way.
//!
//! What is laid can be laid anywhere, so that [`pairs`](super::pairs) lays two of them.
#![expect(clippy::wildcard_enum_match_arm, reason = "most verdicts need nothing of their own")]

mod broker;
mod cluster;
mod substrate;

use broker_app::explain::Verdict;
use broker_domain::{OnFailure, Phase};
use broker_memory::Behaviour;
use broker_tests::world::{NODE, SIZED, World, declaration, operator};

pub(super) use cluster::{keeper, narrow_xrd, rewrite};

use super::scene::Scene;

/// Where a resource is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// On the way up, or Ready.
    In(Phase),
    /// Declared from the blueprint with parameters.
    Sized,
    /// In Provisioning, with Crossplane and the provider behaving like this.
    Composing(Behaviour),
    Failed(OnFailure),
    /// Ready, and its deletion was just asked for.
    Leaving,
}

/// The scene in which a verdict is right.
pub(super) async fn of(verdict: Verdict) -> Scene {
    let mut scene = Box::pin(at(place(verdict))).await;
    Box::pin(lay(&mut scene, verdict)).await;
    match verdict {
        // What the last pass said is what these follow from.
        Verdict::Forbidden
        | Verdict::SchemaRefused
        | Verdict::WebhookRefused
        | Verdict::PassFailing
        | Verdict::DeregistrationFailed => {
            drop(scene.replica.reconcile(scene.id).await.unwrap_err());
        }
        Verdict::Usage => scene.rounds(4).await,
        _ => {}
    }
    scene
}

/// Lays what a verdict is about in the way of a resource, wherever that is.
pub(super) async fn lay(scene: &mut Scene, verdict: Verdict) {
    Box::pin(broker::lay(scene, verdict)).await;
    scene.world.cluster.tick();
}

fn place(verdict: Verdict) -> Place {
    match verdict {
        Verdict::Enrolling
        | Verdict::NodeNeverCalled
        | Verdict::TokenExpired
        | Verdict::TokenInvalid => Place::In(Phase::Enrolling),
        Verdict::Provisioning => Place::Composing(Behaviour::ready_after(4)),
        Verdict::CompositeNotReady => Place::Composing(Behaviour::ready_after(3)),
        Verdict::PausedOnCluster => Place::Composing(Behaviour::ready_after(9)),
        Verdict::ProviderConfigMissing => {
            Place::Composing(Behaviour::ready_after(9).needing_provider_config())
        }
        Verdict::ArmingForeign
        | Verdict::CompositionForeign
        | Verdict::FunctionFailing
        | Verdict::ComposedNotReady
        | Verdict::ProviderSecretMissing
        | Verdict::QuotaExceeded => Place::Composing(Behaviour::never_ready()),
        Verdict::RollingBack => Place::Failed(OnFailure::Rollback),
        Verdict::Failed => Place::Failed(OnFailure::Retain),
        Verdict::SchemaRefused | Verdict::OwnershipConflict | Verdict::CannotRender => Place::Sized,
        Verdict::Ready
        | Verdict::CompositeMissing
        | Verdict::OutboxPoisoned
        | Verdict::StoreUnreachable
        | Verdict::CollaboratorUnreachable
        | Verdict::Unknown
        | Verdict::BlueprintMissing
        | Verdict::BlueprintUnreadable
        | Verdict::ClusterUnreachable
        | Verdict::ClusterUnauthenticated
        | Verdict::WrongCluster
        | Verdict::Drifted
        | Verdict::Degraded
        | Verdict::CompositeBeingDeleted
        | Verdict::NodeLost => Place::In(Phase::Ready),
        Verdict::Draining
        | Verdict::Deprovisioning
        | Verdict::Deleted
        | Verdict::Abandoned
        | Verdict::MeshUnreachable
        | Verdict::DeregistrationFailed
        | Verdict::PeerWillNotDrain
        | Verdict::Usage
        | Verdict::ForeignFinalizer
        | Verdict::ComposedRemains
        | Verdict::CompositeRemains => Place::Leaving,
        _ => Place::In(Phase::Pending),
    }
}

/// A resource there, with nothing in its way.
pub(super) async fn at(place: Place) -> Scene {
    let world = World::new();
    let declared = match &place {
        Place::Sized => declaration(SIZED).with_parameters(r#"{"size":"small"}"#),
        Place::Failed(on_failure) => declaration(NODE).on_failure(*on_failure),
        Place::In(_) | Place::Composing(_) | Place::Leaving => declaration(NODE),
    };
    let (phase, behaviour) = match place {
        Place::Sized => (Phase::Pending, None),
        Place::Composing(behaviour) => (Phase::Provisioning, Some(behaviour)),
        Place::Failed(_) => {
            (Phase::Failed, Some(Behaviour::failing_after(1, "no such machine type")))
        }
        Place::In(phase) => (phase, None),
        Place::Leaving => {
            let ready = world.brought_to(Phase::Ready, &declared).await;
            world.service.deprovision(&operator(), ready.id()).await.unwrap();
            return Scene::new(world, &ready);
        }
    };
    let Some(behaviour) = behaviour else {
        let resource = world.brought_to(phase, &declared).await;
        return Scene::new(world, &resource);
    };
    let declared = world.declare(&declared).await.unwrap();
    world.cluster.behave_for(declared.id(), behaviour);
    let resource = world.until(declared.id(), phase).await;
    Scene::new(world, &resource)
}
