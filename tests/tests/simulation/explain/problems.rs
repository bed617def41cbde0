//! One fixture per verdict: the state of the resource, and the problem that causes the verdict.
//!
//! Each problem can be created in any state: [`cause_pairs`](super::cause_pairs) combines two.
#![expect(clippy::wildcard_enum_match_arm, reason = "most verdicts need no further step")]

mod broker;
mod cluster;
mod substrate;

use broker_app::explain::Verdict;
use broker_domain::{OnFailure, Phase};
use broker_memory::Behaviour;
use broker_tests::world::{NODE, SIZED, World, declaration, operator};

pub(super) use broker::HELD;
pub(super) use cluster::{namespace_blocker, narrow_xrd};

use super::fixture::Fixture;
use super::verdicts::EXPECTED;

#[derive(Debug, Clone, Copy)]
pub(super) enum InitialState {
    /// In a converging phase, or Ready.
    InPhase(Phase),
    /// Pending, from the blueprint with parameters.
    WithParameters,
    /// In Provisioning, with this behaviour of Crossplane and the provider.
    Composing(fn() -> Behaviour),
    Failing(OnFailure),
    /// Ready, with a requested deletion.
    BeingDeleted,
}

pub(super) async fn fixture_for(verdict: Verdict) -> Fixture {
    let (_, state, ..) = *EXPECTED.iter().find(|(row, ..)| *row == verdict).unwrap();
    let mut fixture = Box::pin(fixture_in(state)).await;
    Box::pin(create(&mut fixture, verdict)).await;
    match verdict {
        // `explain` derives these verdicts from the error of the last pass.
        Verdict::Forbidden
        | Verdict::SchemaRefused
        | Verdict::WebhookRefused
        | Verdict::PassFailing
        | Verdict::DeregistrationFailed => {
            drop(fixture.replica.reconcile(fixture.id).await.unwrap_err());
        }
        Verdict::Usage => fixture.run_rounds(4).await,
        _ => {}
    }
    fixture
}

/// Creates the problem of a verdict for a resource in any state.
pub(super) async fn create(fixture: &mut Fixture, verdict: Verdict) {
    Box::pin(broker::create(fixture, verdict)).await;
    fixture.world.cluster.tick();
}

pub(super) async fn fixture_in(state: InitialState) -> Fixture {
    let world = World::new();
    let declared = match state {
        InitialState::WithParameters => declaration(SIZED).with_parameters(r#"{"size":"small"}"#),
        InitialState::Failing(on_failure) => declaration(NODE).on_failure(on_failure),
        InitialState::InPhase(_) | InitialState::Composing(_) | InitialState::BeingDeleted => {
            declaration(NODE)
        }
    };
    let fails = || Behaviour::failing_after(1, "no such machine type");
    let (phase, behaviour) = match state {
        InitialState::WithParameters => (Phase::Pending, None),
        InitialState::Composing(behaviour) => (Phase::Provisioning, Some(behaviour())),
        InitialState::Failing(_) => (Phase::Failed, Some(fails())),
        InitialState::InPhase(phase) => (phase, None),
        InitialState::BeingDeleted => (Phase::Ready, None),
    };
    let resource = if let Some(behaviour) = behaviour {
        let declared = world.declare(&declared).await.unwrap();
        world.cluster.behave_for(declared.id(), behaviour);
        world.until(declared.id(), phase).await
    } else {
        world.declare_until(phase, &declared).await
    };
    if let InitialState::BeingDeleted = state {
        world.service.deprovision(&operator(), resource.id()).await.unwrap();
    }
    Fixture::new(world, &resource)
}
