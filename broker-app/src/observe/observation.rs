//! What a pass saw, reduced to what its decisions need: versions and yes or no, no object and no secret.

use std::collections::BTreeSet;

use broker_domain::{
    ClusterId, FailureReason, ObjectReference, ObservedXr, ProjectId, ProvisionedResource,
    Substrate, XrUid,
};
use broker_ports::{Brake, ObjectVersion};
use broker_render::Armed;

/// The facts of one observation, as the act and persist stages need them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observation {
    /// What [`next`](broker_domain::next()) decided on.
    pub facts: ObservedXr,
    /// The cluster that was read.
    pub cluster: ClusterId,
    /// The composite resource.
    pub xr: XrObservation,
    /// The ProviderConfig.
    pub config: ConfigObservation,
    /// The ProviderConfig's complete name: the one on record, or the one that is about to be applied.
    pub config_reference: Option<ObjectReference>,
    /// A provider needs the ProviderConfig on record, and it does not stand.
    pub misses_config: bool,
    /// A composed object stands, recorded or labelled.
    pub composed_left: bool,
    /// The Secrets and ConfigMaps on record that the composite resource refers to, without a proof yet that they go first.
    pub plain_data: BTreeSet<ObjectReference>,
    /// What the row should hold after this observation: everything seen, nothing that was proven gone.
    pub substrate: Substrate,
    /// Whether the Project's namespace takes objects. Only looked at on the way up.
    pub gate: Gate,
    /// The brakes of the cluster, read where something may be applied or failed.
    pub brakes: Vec<Brake>,
    /// What the Composition said when it failed for good.
    pub failure: Option<FailureReason>,
}

/// Whether the Project's namespace takes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// It does.
    Open,
    /// Not yet. That is no error: whoever owns the namespace is working on it.
    Closed,
}

/// The composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum XrObservation {
    /// A direct read answered that it does not exist.
    Absent,
    /// It stands and was never armed: it composes nothing.
    Shell {
        /// Which object, at which version.
        at: ObjectVersion,
        /// It is being deleted.
        deleting: bool,
    },
    /// It stands and was armed.
    Armed {
        /// Which object, at which version.
        at: ObjectVersion,
        /// With what; `None` when what it says cannot be read.
        with: Option<Armed>,
        /// It is being deleted.
        deleting: bool,
        /// Every field that we would send stands.
        applied: bool,
    },
}

/// The ProviderConfig.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ConfigObservation {
    /// A direct read answered that it does not exist.
    Absent,
    /// It stands.
    Stands {
        /// Which object, at which version.
        at: ObjectVersion,
        /// It is being deleted.
        deleting: bool,
        /// Every field that we would send stands.
        applied: bool,
    },
}

impl XrObservation {
    /// It takes a shell before it can be armed.
    pub(crate) const fn needs_shell(&self) -> bool {
        matches!(self, Self::Absent | Self::Shell { .. })
    }

    /// The uid of a composite resource that stands armed.
    pub(crate) fn standing_armed(&self) -> Option<XrUid> {
        match self {
            Self::Armed { at, .. } => XrUid::new(at.uid.clone()).ok(),
            Self::Absent | Self::Shell { .. } => None,
        }
    }

    /// It is on its way out.
    pub(crate) const fn is_being_deleted(&self) -> bool {
        matches!(self, Self::Shell { deleting: true, .. } | Self::Armed { deleting: true, .. })
    }
}

impl Observation {
    /// The ProviderConfig is missing or drifted. One without a name cannot be recorded, so it is not applied.
    pub(crate) const fn config_needs_apply(&self) -> bool {
        self.config_reference.is_some()
            && matches!(
                self.config,
                ConfigObservation::Absent | ConfigObservation::Stands { applied: false, .. }
            )
    }

    /// The ProviderConfig is put back, because a provider still needs it. That destroys nothing and needs no permit; under
    /// a brake a resource that is not torn down is left as it is.
    pub(crate) fn restores_config(&self, resource: &ProvisionedResource) -> bool {
        let held = resource.phase().is_converging() && self.is_held(resource.project_id());
        self.misses_config && self.gate == Gate::Open && !held
    }

    /// What the row has to hold before the first apply.
    pub(crate) fn about_to_apply(&self) -> Substrate {
        let (known, cluster) = (self.substrate.clone(), self.cluster.clone());
        match &self.config_reference {
            Some(config) => known.about_to_apply(cluster, config.clone()),
            None => known.on_cluster(cluster),
        }
    }

    /// The composite resource stands, armed and wanted.
    pub(crate) fn stands_armed(&self) -> bool {
        matches!(self.xr, XrObservation::Armed { deleting: false, .. })
            && !self.facts.terminal_failure
    }

    /// A brake holds the resource: nothing is applied, re-created or failed.
    pub(crate) fn is_held(&self, project: ProjectId) -> bool {
        let was_applied = self.substrate.applied().is_some();
        self.brakes.iter().any(|brake| brake.holds(project, was_applied))
    }

    /// Under a brake a resource that seems to have lost its composite resource stays where it is.
    pub(crate) fn is_not_believed(&self, resource: &ProvisionedResource) -> bool {
        self.is_held(resource.project_id())
            && !self.facts.xr_exists
            && resource.phase().is_converging()
    }
}
