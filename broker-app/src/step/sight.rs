//! Stage 3, the pure half of observe: what a direct reading comes to.
//!
//! Here is decided what counts as residue, what is proven gone and what stays on record, so it stands where a
//! model checker can ask it, too.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{
    ClusterId, FailureReason, NodeObservation, ObjectReference, ObservedXr, Phase,
    ProvisionedResource, ReferencesDigest, Substrate,
};
use broker_ports::{Standing, XrStatus};

use super::seen::{ConfigSeen, Gate, Seen, XrSeen};

/// What was read of one resource, directly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// The cluster that was read.
    pub cluster: ClusterId,
    /// The composite resource, if it stands.
    pub xr: Option<XrSight>,
    /// The ProviderConfig stands.
    pub config_stands: bool,
    /// The ProviderConfig's complete name.
    pub config_reference: ObjectReference,
    /// Each composed object that the row has on record.
    pub recorded: BTreeMap<ObjectReference, Standing>,
    /// What carries the composite label of this resource, where it was [looked for](Self::needs_labelled).
    pub labelled: BTreeSet<ObjectReference>,
    /// What the mesh says.
    pub node: NodeObservation,
}

/// What was read of a composite resource that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XrSight {
    /// What it says of itself.
    pub status: XrStatus,
    /// The objects that it refers to.
    pub references: BTreeSet<ObjectReference>,
    /// A digest over them.
    pub references_digest: ReferencesDigest,
}

/// What acting needs to know beside the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Around {
    /// The composite resource.
    pub xr: XrSeen,
    /// The ProviderConfig.
    pub config: ConfigSeen,
    /// Whether the Project's namespace takes objects.
    pub gate: Gate,
    /// The brake is on.
    pub braked: bool,
}

impl Sight {
    /// Whether what was composed is also looked for by its label. On the way down everything has to be proven gone, what
    /// no reading ever showed included. On the way up nothing is decided by it, and of all that a pass asks an API server
    /// a list takes longest.
    pub const fn needs_labelled(phase: Phase) -> bool {
        phase.is_teardown()
    }

    /// The facts that [`next`](broker_domain::next()) decides on.
    pub fn facts(&self, resource: &ProvisionedResource) -> ObservedXr {
        let status = self.xr.as_ref().map(|xr| &xr.status);
        ObservedXr {
            xr_exists: status.is_some(),
            crossplane_ready: status.is_some_and(|xr| xr.crossplane_ready(resource.phase())),
            terminal_failure: status.is_some_and(XrStatus::terminal_failure),
            node: self.node,
            residue: self.composed_left() || self.config_stands,
        }
    }

    /// The facts, with what acting on them needs.
    pub fn seen(self, resource: &ProvisionedResource, around: Around) -> Seen {
        let Around { xr, config, gate, braked } = around;
        let message = self.xr.as_ref().and_then(|xr| xr.status.provisioning_failed.as_deref());
        Seen {
            facts: self.facts(resource),
            xr,
            config,
            composed_left: self.composed_left(),
            gate,
            braked,
            failure: message.map(FailureReason::from_message),
            substrate: self.substrate(resource),
            config_reference: self.config_reference,
            cluster: self.cluster,
        }
    }

    fn composed_left(&self) -> bool {
        let stands = |standing: &Standing| *standing == Standing::Present;
        !self.labelled.is_empty() || self.recorded.values().any(stands)
    }

    /// What a direct read found gone.
    fn gone(&self, resource: &ProvisionedResource) -> BTreeSet<ObjectReference> {
        let gone = self.recorded.iter().filter(|(_, standing)| **standing == Standing::Gone);
        let mut gone: BTreeSet<_> = gone.map(|(reference, _)| reference.clone()).collect();
        if resource.phase().is_teardown() && !self.config_stands {
            // On the way up it would only be about to be applied again.
            gone.insert(self.config_reference.clone());
        }
        gone
    }

    /// What the row should hold: everything seen, nothing that was proven gone.
    ///
    /// An object that is gone while the composite resource still refers to it stays on record: Crossplane makes
    /// it again under the same name, and nothing else would tell us.
    fn substrate(&self, resource: &ProvisionedResource) -> Substrate {
        let mut gone = self.gone(resource);
        let mut known = resource.substrate().clone();
        if self.xr.is_some() || !self.labelled.is_empty() {
            known = known.on_cluster(self.cluster.clone()).found(self.labelled.iter().cloned());
        }
        match &self.xr {
            Some(xr) => {
                gone.retain(|reference| !xr.references.contains(reference));
                known.without(&gone).observed(xr.references.iter().cloned(), xr.references_digest)
            }
            None => known.without(&gone),
        }
    }
}
