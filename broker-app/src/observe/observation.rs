//! The observation of a pass: the facts and object versions that decisions need, without objects or secrets.

use std::collections::BTreeSet;

use broker_domain::{
    ClusterId, FailureReason, ObjectReference, ObservedXr, ProjectId, ProvisionedResource,
    Substrate, XrUid,
};
use broker_ports::{Brake, ObjectVersion};
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
    /// Recorded Secrets and ConfigMaps that the composite resource refers to, without a proof that they are deleted
    /// first.
    pub plain_data: BTreeSet<ObjectReference>,
    /// The substrate to record: every observed object, and none that is proven absent.
    pub substrate: Substrate,
    /// Whether the Project's namespace takes objects. Read only while converging.
    pub gate: Gate,
    /// The brakes of the cluster. Read only if the pass may apply or fail something.
    pub brakes: Vec<Brake>,
    /// The Composition's message about a terminal failure.
    pub failure: Option<FailureReason>,
}

/// Whether the Project's namespace takes the objects of the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// It takes objects.
    Open,
    /// It takes no objects yet. Not an error: the owner of the namespace is preparing it.
    Closed,
    /// The shared ProviderConfig of the resource is being deleted. A new one is created afterwards.
    ConfigLeaving,
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
        self.misses_config && self.gate == Gate::Open && !held
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
