//! The observation of a pass: the facts and object versions that decisions need, without objects or secrets.

use std::collections::BTreeSet;

use broker_domain::{
    ClusterId, FailureReason, ObjectReference, ObservedXr, ProjectId, ProvisionedResource,
    Substrate, XrUid,
};
use broker_ports::{Brake, NamespacePhase, ObjectVersion, Withdrawal};
use broker_render::Armed;

/// One observation, as the act and persist stages need it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The facts that [`next`](broker_domain::next()) decided on.
    pub facts: ObservedXr,
    /// The cluster that was read.
    pub cluster: ClusterId,
    /// The composite resource.
    pub xr: XrObservation,
    /// The ProviderConfig.
    pub config: ConfigObservation,
    /// The ProviderConfig's full name: the recorded one, or the one of the next apply. `None` if the platform owns it.
    pub config_reference: Option<ObjectReference>,
    /// A provider needs the recorded ProviderConfig, and it does not exist.
    pub misses_config: bool,
    /// A composed object exists, found by its recorded name or by label.
    pub composed_left: bool,
    /// Recorded Secrets and ConfigMaps to which the composite resource refers. No reading has proven yet that they are
    /// deleted before it.
    pub plain_data: BTreeSet<ObjectReference>,
    /// The substrate to record: every observed object, and none that is proven absent.
    pub substrate: Substrate,
    /// Whether the pass may apply objects. Read only if it may have to.
    pub gate: Gate,
    /// The brakes of the cluster. Read only if the pass may apply or fail something.
    pub brakes: Vec<Brake>,
    /// The Composition's message about a terminal failure.
    pub failure: Option<FailureReason>,
}

/// Whether a pass may apply objects of a resource. A closed gate is not an error: the resource waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// It may.
    Open,
    /// The namespace of its Project takes no object of this resource in this phase.
    Namespace(NamespacePhase),
    /// Its Project is assigned to another cluster.
    OtherCluster,
    /// The pass would create or arm, and the credential was withdrawn.
    Credential(Withdrawal),
    /// The shared ProviderConfig of the resource is being deleted. A new one is created afterwards.
    ConfigLeaving,
    /// Not read, because the pass applies nothing.
    NotRead,
}

impl Gate {
    /// The gate of a namespace. Ready opens it. Degraded opens it for a resource that was applied before: its row records
    /// the uid of an armed composite resource.
    pub const fn of_namespace(phase: NamespacePhase, applied: Option<&XrUid>) -> Self {
        match (phase, applied) {
            (NamespacePhase::Ready, _) | (NamespacePhase::Degraded, Some(_)) => Self::Open,
            (
                NamespacePhase::Pending
                | NamespacePhase::Provisioning
                | NamespacePhase::Degraded
                | NamespacePhase::Terminating
                | NamespacePhase::Deleted,
                _,
            ) => Self::Namespace(phase),
        }
    }

    /// Closes an open gate for a pass that creates or arms with a withdrawn credential. What is armed stays applied.
    #[must_use]
    pub const fn to_create_with(self, withdrawal: Option<Withdrawal>) -> Self {
        match (self, withdrawal) {
            (Self::Open, Some(withdrawal)) => Self::Credential(withdrawal),
            (gate, _) => gate,
        }
    }

    /// Whether the pass may apply objects.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open)
    }
}

/// The composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum XrObservation {
    /// Absent by a direct read.
    Absent,
    /// It exists and was never armed, so it composes nothing.
    Shell {
        /// Its uid and version.
        at: ObjectVersion,
        /// It is being deleted.
        deleting: bool,
    },
    /// It exists and was armed.
    Armed {
        /// Its uid and version.
        at: ObjectVersion,
        /// What it was armed with; `None` if the annotation is unreadable.
        with: Option<Armed>,
        /// It is being deleted.
        deleting: bool,
        /// It has every field that an apply would send.
        applied: bool,
    },
}

/// The ProviderConfig.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ConfigObservation {
    /// Absent by a direct read.
    Absent,
    /// It exists.
    Exists {
        /// Its uid and version.
        at: ObjectVersion,
        /// It is being deleted.
        deleting: bool,
        /// It has every field that an apply would send.
        applied: bool,
    },
}

impl XrObservation {
    /// Whether a shell has to be applied before the arm.
    pub(crate) const fn needs_shell(&self) -> bool {
        matches!(self, Self::Absent | Self::Shell { .. })
    }

    /// The uid of an armed composite resource.
    pub(crate) fn armed_uid(&self) -> Option<XrUid> {
        match self {
            Self::Armed { at, .. } => XrUid::new(at.uid.clone()).ok(),
            Self::Absent | Self::Shell { .. } => None,
        }
    }

    pub(crate) const fn is_being_deleted(&self) -> bool {
        matches!(self, Self::Shell { deleting: true, .. } | Self::Armed { deleting: true, .. })
    }
}

impl Observation {
    /// Whether the ProviderConfig is missing or drifted. One without a name cannot be recorded, so it is not applied.
    pub(crate) const fn config_needs_apply(&self) -> bool {
        self.config_reference.is_some()
            && matches!(
                self.config,
                ConfigObservation::Absent | ConfigObservation::Exists { applied: false, .. }
            )
    }

    /// Whether the pass restores a missing ProviderConfig. This needs no permit, because it destroys nothing. But a brake
    /// prevents it while the resource converges.
    pub(crate) fn restores_config(&self, resource: &ProvisionedResource) -> bool {
        let held = resource.phase().is_converging() && self.is_held(resource.project_id());
        self.misses_config && self.gate.is_open() && !held
    }

    pub(crate) fn about_to_apply(&self) -> Substrate {
        let (substrate, cluster) = (self.substrate.clone(), self.cluster.clone());
        match &self.config_reference {
            Some(config) => substrate.about_to_apply(cluster, config.clone()),
            None => substrate.on_cluster(cluster),
        }
    }

    /// Whether the composite resource is armed, not being deleted, and not failed.
    pub(crate) fn is_armed(&self) -> bool {
        matches!(self.xr, XrObservation::Armed { deleting: false, .. })
            && !self.facts.terminal_failure
    }

    /// A brake holds the resource: no apply, re-creation or failure.
    pub(crate) fn is_held(&self, project: ProjectId) -> bool {
        let was_applied = self.substrate.applied().is_some();
        self.brakes.iter().any(|brake| brake.holds(project, was_applied))
    }

    /// Whether a brake keeps the phase of a resource whose composite resource seems lost.
    pub(crate) fn brake_keeps_phase(&self, resource: &ProvisionedResource) -> bool {
        self.is_held(resource.project_id())
            && !self.facts.xr_exists
            && resource.phase().is_converging()
    }
}
