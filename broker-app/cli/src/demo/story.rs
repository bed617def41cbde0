//! What the demo tells: six roles, how each should end, and when what happens.
//!
//! Everything here is drawn from the seed before the first round, so that a run can be repeated.

use broker_domain::{EventType, OnFailure, Phase};
use broker_memory::Behaviour;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::catalog::Blueprint;

/// One of the six stories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A machine that joins the mesh.
    Node,
    /// Something without a machine.
    Standalone,
    /// A blueprint with parameters.
    Parameters,
    /// Fails for good and is rolled back.
    Rollback,
    /// Waits for the namespace of its Project.
    Namespace,
    /// Is torn down once it is Ready.
    Teardown,
}

/// One resource's part: its role, and how long everything takes, counted in rounds.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) role: Role,
    /// The round in which it is declared.
    pub(super) declared_in: u32,
    /// What Crossplane and the provider do about it.
    pub(super) behaviour: Behaviour,
    /// How long its agent takes to enrol once the machine runs.
    pub(super) boots_for: u32,
}

/// The whole script.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) parts: Vec<Part>,
    /// The round in which the late Project's namespace becomes ready.
    pub(super) namespace_ready_in: u32,
}

/// How many rounds a resource that is to be torn down is left alone at Ready.
pub(super) const REST_AT_READY: u32 = 3;

/// Within how many rounds everything is declared.
const DECLARING: usize = 6;

impl Script {
    /// The script of a seed.
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

    /// What its resources are called, before a number.
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

    /// Said once, when it is declared.
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

    /// The phases that it should go through, from the first to the last.
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

    /// The phase in which its story is over.
    pub(super) fn last_phase(self) -> Phase {
        // Every path has an end; the first phase of all stands in for one that has none.
        self.path().last().copied().unwrap_or(Phase::Pending)
    }

    /// The events that the world should hear of it, in order.
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
