//! One scene per verdict: where the resource is, and its problem.
//!
//! Each problem can be created anywhere, so that [`pairs`](super::pairs) can combine two.
#![expect(clippy::wildcard_enum_match_arm, reason = "most verdicts need nothing of their own")]

mod broker;
mod cluster;
mod substrate;

use broker_app::explain::Verdict;
use broker_domain::{OnFailure, Phase};
use broker_memory::Behaviour;
use broker_tests::world::{NODE, SIZED, World, declaration, operator};

pub(super) use cluster::{keeper, narrow_xrd};

use super::scene::Scene;
use super::verdicts::EXPECTED;

#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// In a phase of convergence, or Ready.
    At(Phase),
    /// Declared from the blueprint with parameters.
    WithSize,
    /// In Provisioning, with this behaviour of Crossplane and the provider.
    Composing(fn() -> Behaviour),
    Failing(OnFailure),
    /// Ready, with its deletion just requested.
    Leaving,
}

pub(super) async fn of(verdict: Verdict) -> Scene {
    let (_, place, ..) = *EXPECTED.iter().find(|(row, ..)| *row == verdict).unwrap();
    let mut scene = Box::pin(at(place)).await;
    Box::pin(lay(&mut scene, verdict)).await;
    match verdict {
        // These follow from the error of the last pass.
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

/// Creates the problem of a verdict for a resource in any state.
pub(super) async fn lay(scene: &mut Scene, verdict: Verdict) {
    Box::pin(broker::lay(scene, verdict)).await;
    scene.world.cluster.tick();
}

pub(super) async fn at(place: Place) -> Scene {
    let world = World::new();
    let declared = match place {
        Place::WithSize => declaration(SIZED).with_parameters(r#"{"size":"small"}"#),
        Place::Failing(on_failure) => declaration(NODE).on_failure(on_failure),
        Place::At(_) | Place::Composing(_) | Place::Leaving => declaration(NODE),
    };
    let fails = || Behaviour::failing_after(1, "no such machine type");
    let (phase, behaviour) = match place {
        Place::WithSize => (Phase::Pending, None),
        Place::Composing(behaviour) => (Phase::Provisioning, Some(behaviour())),
        Place::Failing(_) => (Phase::Failed, Some(fails())),
        Place::At(phase) => (phase, None),
        Place::Leaving => (Phase::Ready, None),
    };
    let resource = if let Some(behaviour) = behaviour {
        let declared = world.declare(&declared).await.unwrap();
        world.cluster.behave_for(declared.id(), behaviour);
        world.until(declared.id(), phase).await
    } else {
        world.declare_until(phase, &declared).await
    };
    if let Place::Leaving = place {
        world.service.deprovision(&operator(), resource.id()).await.unwrap();
    }
    Scene::new(world, &resource)
}
