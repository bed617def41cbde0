//! The script of the demo: six roles, their expected results, and the time of each step.
//!
//! Everything is drawn from the seed before the first round, so a run is repeatable.

use broker_domain::{EventType, OnFailure, Phase};
use broker_memory::Behaviour;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::catalog::Blueprint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A machine that joins the mesh.
    Node,
    /// A resource without a machine.
    Standalone,
    /// A blueprint with parameters.
    Parameters,
    /// Fails terminally and is rolled back.
    Rollback,
    /// Waits for the namespace of its Project.
    Namespace,
    /// Is torn down once it is Ready.
    Teardown,
}

/// A resource's role and the durations of its steps, in rounds.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) role: Role,
    /// The round of its declaration.
    pub(super) declared_in: u32,
    /// How Crossplane and the provider behave.
    pub(super) behaviour: Behaviour,
    /// How long its agent takes to enrol after the machine runs.
    pub(super) boots_for: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) parts: Vec<Part>,
    /// The round in which the late Project's namespace becomes ready.
    pub(super) namespace_ready_in: u32,
}

/// How many rounds a teardown resource stays Ready.
pub(super) const REST_AT_READY: u32 = 3;

/// All declarations happen within this many rounds.
const DECLARING: usize = 6;

impl Script {
    /// Draws the script of a seed.
    pub(super) fn drawn(seed: u32, resources: u16) -> Self {
        let mut dice = StdRng::seed_from_u64(seed.into());
        let resources = usize::from(resources);
        let parts = (0..resources).map(|index| {
            let declared_in = index * DECLARING / resources.max(DECLARING);
            Part::drawn(index, u32::try_from(declared_in).unwrap_or_default(), &mut dice)
        });
        let parts = parts.collect();
        Self { parts, namespace_ready_in: dice.random_range(9..=12) }
    }
}

impl Part {
    fn drawn(index: usize, declared_in: u32, dice: &mut StdRng) -> Self {
        let role = Role::ALL[index % Role::ALL.len()];
        let name = format!("{}-{}", role.stem(), index / Role::ALL.len() + 1);
        let work = dice.random_range(3..=6);
        let behaviour = match role {
            Role::Rollback => Behaviour::failing_after(work, "quota exceeded: no GPU is left"),
            Role::Node | Role::Standalone | Role::Parameters | Role::Namespace | Role::Teardown => {
                Behaviour::ready_after(work)
            }
        };
        let behaviour = behaviour.needing_provider_config();
        let behaviour = behaviour.finalizing_after(dice.random_range(1..=3));
        Self { name, role, declared_in, behaviour, boots_for: dice.random_range(2..=4) }
    }
}

impl Role {
    /// Every role, in the order in which resources take them.
    pub(super) const ALL: [Self; 6] = [
        Self::Node,
        Self::Standalone,
        Self::Parameters,
        Self::Rollback,
        Self::Namespace,
        Self::Teardown,
    ];

    /// The first part of the resource name.
    const fn stem(self) -> &'static str {
        match self {
            Self::Node => "web",
            Self::Standalone => "bucket",
            Self::Parameters => "database",
            Self::Rollback => "gpu",
            Self::Namespace => "edge",
            Self::Teardown => "batch",
        }
    }

    /// The note on its declaration.
    pub(super) const fn introduction(self) -> &'static str {
        match self {
            Self::Node => "a machine that joins the mesh",
            Self::Standalone => "no machine, so no token and no Node",
            Self::Parameters => "a machine with parameters",
            Self::Rollback => "a machine that is rolled back should it fail",
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
