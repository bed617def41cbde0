//! The pure half of observe: reduces direct readings to an observation.
//!
//! It decides what counts as residue, what is proven absent and what stays on record. The model checker runs it too.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{
    ClusterId, FailureReason, NodeObservation, ObjectReference, ObservedXr, Phase,
    ProvisionedResource, ReferencesDigest, Substrate,
};
use broker_ports::{Brake, Presence, XrStatus};

use super::observation::{ConfigObservation, Gate, Observation, XrObservation};

/// The direct readings of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawObservation {
    /// The cluster that was read.
    pub cluster: ClusterId,
    /// The composite resource, if it exists.
    pub xr: Option<RawXr>,
    /// The recorded ProviderConfig exists; `false` if none is on record.
    pub config_exists: bool,
    /// Composed objects that were read by name.
    pub recorded: BTreeMap<ObjectReference, Presence>,
    /// Objects with the composite label of this resource, if the pass [reads them](Self::needs_composed).
    pub labelled: BTreeSet<ObjectReference>,
    /// Whether the Node is registered in the mesh.
    pub node: NodeObservation,
}

/// The reading of an existing composite resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawXr {
    /// Its own status.
    pub status: XrStatus,
    /// The objects that it refers to.
    pub references: BTreeSet<ObjectReference>,
    /// A digest of these references.
    pub references_digest: ReferencesDigest,
}

/// What the act stage needs in addition to the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActContext {
    /// The composite resource.
    pub xr: XrObservation,
    /// The ProviderConfig.
    pub config: ConfigObservation,
    /// The ProviderConfig's full name: the recorded one, or the one of the next apply.
    pub config_reference: Option<ObjectReference>,
    /// Whether the pass may apply objects.
    pub gate: Gate,
    /// The brakes of the cluster.
    pub brakes: Vec<Brake>,
}

impl RawXr {
    /// The Secrets and ConfigMaps that it refers to.
    fn plain_data(&self) -> BTreeSet<ObjectReference> {
        self.references.iter().filter(|it| it.is_plain_data()).cloned().collect()
    }

    /// Whether plain data is proven to be deleted before its composite resource.
    ///
    /// The proof is an earlier reading with the same references and a foreground deletion. After that reading, the row
    /// no longer records the plain data.
    fn is_deleted_before_xr(
        &self,
        reference: &ObjectReference,
        resource: &ProvisionedResource,
    ) -> bool {
        let known = resource.substrate();
        self.status.deleting
            && reference.is_plain_data()
            && !known.composed().contains(reference)
            && known.references_digest() == Some(&self.references_digest)
    }
}

impl RawObservation {
    /// Whether a pass reads composed objects, by recorded name and by label.
    ///
    /// A teardown has to prove them absent, including those that no earlier reading showed. A converging pass does not
    /// need them, and an unreadable one must not keep a resource from Ready.
    pub const fn needs_composed(phase: Phase) -> bool {
        phase.is_teardown()
    }

    /// Whether the recorded ProviderConfig is missing although a provider needs it.
    pub fn misses_config(&self, resource: &ProvisionedResource) -> bool {
        if self.config_exists || resource.substrate().provider_config().is_none() {
            return false;
        }
        needs_config(resource.phase(), self.status(), self.composed_left())
    }

    /// The facts that [`next`](broker_domain::next()) decides on.
    pub fn facts(&self, resource: &ProvisionedResource) -> ObservedXr {
        // A shared ProviderConfig outlives the resource.
        let own_config = self.config_exists && resource.own_provider_config().is_some();
        let residue = self.composed_left() || own_config;
        facts(self.status(), resource.phase(), self.node, residue)
    }

    /// Adds the context that the act stage needs.
    pub fn into_observation(
        self,
        resource: &ProvisionedResource,
        context: ActContext,
    ) -> Observation {
        let ActContext { xr, config, config_reference, gate, brakes } = context;
        let message = self.xr.as_ref().and_then(|xr| xr.status.provisioning_failed.as_deref());
        let substrate = self.substrate(resource);
        let references = self.xr.as_ref().map(|xr| &xr.references);
        let plain_data =
            substrate.plain_data().filter(|it| references.is_some_and(|all| all.contains(it)));
        Observation {
            facts: self.facts(resource),
            plain_data: plain_data.cloned().collect(),
            substrate: xr.armed_uid().into_iter().fold(substrate, Substrate::armed),
            xr,
            config,
            misses_config: self.misses_config(resource),
            composed_left: self.composed_left(),
            gate,
            brakes,
            failure: message.map(FailureReason::from_message),
            config_reference,
            cluster: self.cluster,
        }
    }

    fn status(&self) -> Option<&XrStatus> {
        self.xr.as_ref().map(|xr| &xr.status)
    }

    fn composed_left(&self) -> bool {
        let exists = |presence: &Presence| *presence == Presence::Present;
        !self.labelled.is_empty() || self.recorded.values().any(exists)
    }

    /// Objects that a direct read found absent.
    fn gone(&self) -> BTreeSet<ObjectReference> {
        let gone = self.recorded.iter().filter(|(_, presence)| **presence == Presence::Gone);
        gone.map(|(reference, _)| reference.clone()).collect()
    }

    /// The substrate to record: every observed object, and none that is proven absent.
    ///
    /// An absent object stays on record while the composite resource refers to it: Crossplane may re-create it without
    /// changing the composite resource.
    fn substrate(&self, resource: &ProvisionedResource) -> Substrate {
        let mut gone = self.gone();
        let mut known = resource.substrate().clone();
        if self.xr.is_some() || !self.labelled.is_empty() {
            known =
                known.on_cluster(self.cluster.clone()).with_labelled(self.labelled.iter().cloned());
        }
        match &self.xr {
            Some(xr) => {
                gone.retain(|reference| !xr.references.contains(reference));
                let known = known.without(&gone);
                let seen = xr
                    .references
                    .iter()
                    .filter(|it| !xr.is_deleted_before_xr(it, resource))
                    .cloned();
                let known = known.observed(seen, xr.references_digest);
                if xr.status.foreground { known.without(&xr.plain_data()) } else { known }
            }
            None => known.without(&gone),
        }
    }
}

/// The facts that [`next`](broker_domain::next()) decides on, from a direct reading or from the watch cache.
pub(crate) fn facts(
    status: Option<&XrStatus>,
    phase: Phase,
    node: NodeObservation,
    residue: bool,
) -> ObservedXr {
    ObservedXr {
        xr_exists: status.is_some(),
        crossplane_ready: status.is_some_and(|xr| xr.crossplane_ready(phase)),
        terminal_failure: status.is_some_and(XrStatus::terminal_failure),
        node,
        residue,
    }
}

/// Whether a provider needs the ProviderConfig, to keep objects up to date or to finalise deleted ones.
pub(crate) fn needs_config(phase: Phase, status: Option<&XrStatus>, composed_left: bool) -> bool {
    match phase {
        Phase::Pending | Phase::Provisioning | Phase::Enrolling | Phase::Ready => {
            status.is_some_and(|xr| !xr.deleting && !xr.terminal_failure())
        }
        Phase::Deregistering | Phase::Deprovisioning => {
            status.is_some_and(|xr| xr.deleting) || composed_left
        }
        Phase::Failed | Phase::Deleted => false,
    }
}
