//! The plan of the demo: six scenarios, their expected results, and the time of each step.
//!
//! The seed determines the plan before the first round, so a run is repeatable.

use broker_domain::{EventType, OnFailure, Phase};
use broker_memory::Behaviour;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::catalog::Blueprint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// A machine that joins the mesh.
    Node,
    /// A resource without a machine.
    Standalone,
    /// A blueprint with parameters.
    Parameters,
    /// Fails terminally and is rolled back.
    Rollback,
    /// Waits for its Project's namespace.
    Namespace,
    /// Is torn down once it is Ready.
    Teardown,
}

/// A resource's scenario and the durations of its steps, in rounds.
#[derive(Debug, Clone)]
pub(super) struct PlannedResource {
    pub(super) name: String,
    pub(super) scenario: Scenario,
    /// The round of its declaration.
    pub(super) declared_in: u32,
    /// How Crossplane and the provider behave.
    pub(super) behaviour: Behaviour,
    /// From the start of the machine to the enrolment of its agent.
    pub(super) boot_rounds: u32,
}

#[derive(Debug, Clone)]
pub(super) struct DemoPlan {
    pub(super) resources: Vec<PlannedResource>,
    /// The round in which the late Project's namespace becomes ready.
    pub(super) namespace_ready_in: u32,
}

/// A teardown resource stays Ready for this many rounds.
pub(super) const ROUNDS_AT_READY: u32 = 3;

/// All declarations happen within this many rounds.
const DECLARATION_ROUNDS: usize = 6;

impl DemoPlan {
    pub(super) fn from_seed(seed: u32, resources: u16) -> Self {
        let mut rng = StdRng::seed_from_u64(seed.into());
        let resources = usize::from(resources);
        let planned = (0..resources).map(|index| {
            let declared_in = index * DECLARATION_ROUNDS / resources.max(DECLARATION_ROUNDS);
            PlannedResource::random(index, u32::try_from(declared_in).unwrap_or_default(), &mut rng)
        });
        let resources = planned.collect();
        Self { resources, namespace_ready_in: rng.random_range(9..=12) }
    }
}

impl PlannedResource {
    fn random(index: usize, declared_in: u32, rng: &mut StdRng) -> Self {
        let scenario = Scenario::ALL[index % Scenario::ALL.len()];
        let name = format!("{}-{}", scenario.name_prefix(), index / Scenario::ALL.len() + 1);
        let rounds_to_ready = rng.random_range(3..=6);
        let behaviour = match scenario {
            Scenario::Rollback => {
                Behaviour::failing_after(rounds_to_ready, "quota exceeded: no GPU is left")
            }
            Scenario::Node
            | Scenario::Standalone
            | Scenario::Parameters
            | Scenario::Namespace
            | Scenario::Teardown => Behaviour::ready_after(rounds_to_ready),
        };
        let behaviour = behaviour.needing_provider_config();
        let behaviour = behaviour.finalizing_after(rng.random_range(1..=3));
        Self { name, scenario, declared_in, behaviour, boot_rounds: rng.random_range(2..=4) }
    }
}

impl Scenario {
    /// Every scenario, in the order of assignment to resources.
    pub(super) const ALL: [Self; 6] = [
        Self::Node,
        Self::Standalone,
        Self::Parameters,
        Self::Rollback,
        Self::Namespace,
        Self::Teardown,
    ];

    /// The first part of the resource name.
    const fn name_prefix(self) -> &'static str {
        match self {
            Self::Node => "web",
            Self::Standalone => "bucket",
            Self::Parameters => "database",
            Self::Rollback => "gpu",
            Self::Namespace => "edge",
            Self::Teardown => "batch",
        }
    }

    /// The note on the resource's declaration.
    pub(super) const fn introduction(self) -> &'static str {
        match self {
            Self::Node => "a machine that joins the mesh",
            Self::Standalone => "no machine, so no token and no Node",
            Self::Parameters => "a machine with parameters",
            Self::Rollback => "a machine with rollback on failure",
            Self::Namespace => "a machine whose Project has no namespace yet",
            Self::Teardown => "a machine for a short job",
        }
    }

    pub(super) const fn blueprint(self) -> Blueprint {
        match self {
            Self::Standalone => Blueprint::Bucket,
            Self::Parameters => Blueprint::Database,
            Self::Node | Self::Rollback | Self::Namespace | Self::Teardown => Blueprint::Machine,
        }
    }

    pub(super) const fn on_failure(self) -> OnFailure {
        match self {
            Self::Rollback => OnFailure::Rollback,
            Self::Node | Self::Standalone | Self::Parameters | Self::Namespace | Self::Teardown => {
                OnFailure::Retain
            }
        }
    }

    /// The expected phases, in order.
    pub(super) const fn path(self) -> &'static [Phase] {
        use Phase::{
            Deleted, Deprovisioning, Deregistering, Enrolling, Failed, Pending, Provisioning, Ready,
        };
        match self {
            Self::Node | Self::Parameters | Self::Namespace => {
                &[Pending, Provisioning, Enrolling, Ready]
            }
            Self::Standalone => &[Pending, Provisioning, Ready],
            Self::Rollback => {
                &[Pending, Provisioning, Failed, Deregistering, Deprovisioning, Deleted]
            }
            Self::Teardown => {
                &[Pending, Provisioning, Enrolling, Ready, Deregistering, Deprovisioning, Deleted]
            }
        }
    }

    /// The final expected phase.
    pub(super) fn last_phase(self) -> Phase {
        // Every path has a last phase; the fallback only avoids a panic.
        self.path().last().copied().unwrap_or(Phase::Pending)
    }

    /// The expected events, in order.
    pub(super) const fn events(self) -> &'static [EventType] {
        use EventType::{Deleted, Deleting, Failed, Ready, Requested};
        match self {
            Self::Node | Self::Standalone | Self::Parameters | Self::Namespace => {
                &[Requested, Ready]
            }
            Self::Rollback => &[Requested, Failed, Deleting, Deleted],
            Self::Teardown => &[Requested, Ready, Deleting, Deleted],
        }
    }
}
