//! Teardown: first the Node, then the composite resource with its composed objects, last the ProviderConfig.

use broker_domain::{ObjectReference, Phase};
use broker_ports::{FOREGROUND, ObjectReport};

use super::substrate::{complaint, with_provider};
use super::{Judge, Judgement};
use crate::explain::facts::Reference;
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

/// Crossplane's finalizer on a composite resource.
const CROSSPLANE_FINALIZER: &str = "composite.apiextensions.crossplane.io";

/// Finalizers that their owners remove without help.
const OWN_FINALIZERS: [&str; 4] =
    [FOREGROUND, CROSSPLANE_FINALIZER, "finalizer.managedresource.crossplane.io", "orphan"];

impl Judge<'_> {
    pub(super) fn tearing_down(&mut self) -> Judgement {
        if let Some(found) = self.node_stays() {
            return found;
        }
        let facts = self.facts;
        let xr = match self.take("composite resource", &facts.cluster.xr) {
            None => return self.last_pass().unwrap_or_else(|| self.progress()),
            Some(xr) => xr.as_ref(),
        };
        match xr {
            // The deletion was not requested yet, or not accepted.
            Some(xr) if xr.deleting_since.is_none() => {
                self.last_pass().unwrap_or_else(|| self.progress())
            }
            Some(xr) => self.composite_deleting(xr),
            None => self.after_composite(),
        }
    }

    /// No pass deletes anything while the Node is registered.
    fn node_stays(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let Some(Reference::Found(true)) = &facts.node else { return None };
        if let Some(found) = self.last_pass() {
            return Some(found);
        }
        if self.budget.is_over() && facts.resource.phase() == Phase::Deregistering {
            return Some(Judgement::new(Verdict::PeerWillNotDrain, Remedy::DrainPeer));
        }
        Some(self.progress())
    }

    fn composite_deleting(&mut self, xr: &ObjectReport) -> Judgement {
        if let Some(found) = self.held(xr) {
            return found;
        }
        if let Some(found) = self.last_pass() {
            return found;
        }
        if self.doubts.is_empty() && self.budget.is_over() {
            return self.stays(xr);
        }
        self.progress()
    }

    /// The composite resource is gone; other objects may remain.
    fn after_composite(&mut self) -> Judgement {
        if let Some(found) = self.composed_held() {
            return found;
        }
        let facts = self.facts;
        let config = facts.cluster.provider_config_reference.as_ref();
        let config_report = self.take("ProviderConfig", &facts.cluster.provider_config);
        if let (Some(Some(object)), Some(reference)) = (config_report, config)
            && object.deleting_since.is_some()
            && let Some(found) = foreign_finalizer(reference, object)
        {
            return found;
        }
        self.last_pass().unwrap_or_else(|| self.progress())
    }

    /// What blocks the deletion of a composite resource.
    pub(super) fn held(&mut self, xr: &ObjectReport) -> Option<Judgement> {
        let reference = self.facts.cluster.xr_reference.as_ref()?;
        // A pause no longer matters once Crossplane has removed its finalizer.
        let waits_for_crossplane = xr.finalizers.iter().any(|it| it == CROSSPLANE_FINALIZER);
        if xr.paused && waits_for_crossplane {
            let paused =
                Judgement::new(Verdict::PausedOnCluster, Remedy::Unpause(reference.clone()));
            return Some(paused.with_object(Some(reference)).since(xr.deleting_since));
        }
        self.composed_held().or_else(|| foreign_finalizer(reference, xr))
    }

    /// The first composed object that is paused, reports an error, or has a foreign finalizer; over budget, any.
    fn composed_held(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let mut left = Vec::new();
        for (reference, fact) in &facts.cluster.composed {
            if let Some(Some(object)) = self.take("composed object", fact) {
                left.push((reference, object));
            }
        }
        for (reference, object) in &left {
            if object.paused {
                let remedy = Remedy::Unpause((*reference).clone());
                let paused = Judgement::new(Verdict::PausedOnCluster, remedy);
                return Some(with_provider(paused.with_object(Some(reference)), reference));
            }
            if let Some(condition) = complaint(object)
                && object.deleting_since.is_some()
            {
                let mut found = self.complaint(reference, condition);
                if found.verdict == Verdict::ComposedNotReady {
                    found.verdict = Verdict::ComposedRemains;
                }
                return Some(found);
            }
            if object.deleting_since.is_some()
                && let Some(found) = foreign_finalizer(reference, object)
            {
                return Some(with_provider(found, reference));
            }
        }
        let (reference, object) = left.first()?;
        if !self.budget.is_over() {
            return None;
        }
        let remedy = Remedy::MendComposed((*reference).clone());
        let stays = Judgement::new(Verdict::ComposedRemains, remedy).with_object(Some(reference));
        let held = object.finalizers.join(", ");
        let stays = stays.with_message(if held.is_empty() {
            "its deletion was not requested".to_owned()
        } else {
            format!("held by {held}")
        });
        Some(with_provider(stays.since(object.deleting_since), reference))
    }

    fn stays(&self, xr: &ObjectReport) -> Judgement {
        let Some(reference) = &self.facts.cluster.xr_reference else {
            return Judgement::no_action(Verdict::Deprovisioning);
        };
        let remedy = Remedy::FinishDeletion(reference.clone());
        let stays = Judgement::new(Verdict::CompositeRemains, remedy).with_object(Some(reference));
        stays.with_message(format!("held by {}", xr.finalizers.join(", "))).since(xr.deleting_since)
    }
}

fn foreign_finalizer(reference: &ObjectReference, object: &ObjectReport) -> Option<Judgement> {
    let own = |finalizer: &&String| !OWN_FINALIZERS.contains(&finalizer.as_str());
    let finalizer = object.finalizers.iter().find(own)?;
    let remedy =
        Remedy::RemoveFinalizer { object: reference.clone(), finalizer: finalizer.clone() };
    let held = Judgement::new(Verdict::ForeignFinalizer, remedy).with_object(Some(reference));
    Some(held.with_message(format!("held by {finalizer}")).since(object.deleting_since))
}
