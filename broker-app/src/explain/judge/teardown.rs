//! The obstacles of a teardown: first the Node, then the composite resource with its composed objects, then the
//! ProviderConfig.

use broker_domain::{ObjectReference, Phase};
use broker_ports::{FOREGROUND, ObjectReport};

use super::substrate::{error_condition, with_provider};
use super::{Judge, Judgement};
use crate::explain::facts::Reference;
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

/// Crossplane's finalizer on a composite resource.
const CROSSPLANE_FINALIZER: &str = "composite.apiextensions.crossplane.io";

/// Finalizers of Crossplane and Kubernetes.
const KNOWN_FINALIZERS: [&str; 4] =
    [FOREGROUND, CROSSPLANE_FINALIZER, "finalizer.managedresource.crossplane.io", "orphan"];

impl Judge<'_> {
    pub(super) fn tearing_down(&mut self) -> Judgement {
        if let Some(found) = self.registered_node() {
            return found;
        }
        let facts = self.facts;
        let xr = match self.known_or_doubt("composite resource", &facts.cluster.xr) {
            None => return self.last_pass_error().unwrap_or_else(|| self.progress()),
            Some(xr) => xr.as_ref(),
        };
        match xr {
            // The deletion was not requested yet, or not accepted.
            Some(xr) if xr.deleting_since.is_none() => {
                self.last_pass_error().unwrap_or_else(|| self.progress())
            }
            Some(xr) => self.composite_deleting(xr),
            None => self.after_composite(),
        }
    }

    /// The Node is still registered, so no pass deletes anything.
    fn registered_node(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let Some(Reference::Found(true)) = &facts.node else { return None };
        if let Some(found) = self.last_pass_error() {
            return Some(found);
        }
        if self.budget.is_over() && facts.resource.phase() == Phase::Deregistering {
            return Some(Judgement::new(Verdict::PeerWillNotDrain, Remedy::DrainPeer));
        }
        Some(self.progress())
    }

    fn composite_deleting(&mut self, xr: &ObjectReport) -> Judgement {
        if let Some(found) = self.deletion_obstacle(xr) {
            return found;
        }
        if let Some(found) = self.last_pass_error() {
            return found;
        }
        if self.doubts.is_empty() && self.budget.is_over() {
            return self.remaining_composite(xr);
        }
        self.progress()
    }

    /// The composite resource is gone; other objects may remain.
    fn after_composite(&mut self) -> Judgement {
        if let Some(found) = self.remaining_composed() {
            return found;
        }
        let facts = self.facts;
        let config = facts.cluster.provider_config_reference.as_ref();
        let config_report = self.known_or_doubt("ProviderConfig", &facts.cluster.provider_config);
        if let (Some(Some(object)), Some(reference)) = (config_report, config)
            && object.deleting_since.is_some()
            && let Some(found) = foreign_finalizer(reference, object)
        {
            return found;
        }
        self.last_pass_error().unwrap_or_else(|| self.progress())
    }

    /// What blocks the deletion of a composite resource.
    pub(super) fn deletion_obstacle(&mut self, xr: &ObjectReport) -> Option<Judgement> {
        let reference = self.facts.cluster.xr_reference.as_ref()?;
        // A pause no longer matters once Crossplane has removed its finalizer.
        let waits_for_crossplane = xr.finalizers.iter().any(|it| it == CROSSPLANE_FINALIZER);
        if xr.paused && waits_for_crossplane {
            let paused =
                Judgement::new(Verdict::PausedOnCluster, Remedy::Unpause(reference.clone()));
            return Some(paused.with_object(Some(reference)).since(xr.deleting_since));
        }
        self.remaining_composed().or_else(|| foreign_finalizer(reference, xr))
    }

    /// The first composed object that is paused, reports an error, or has a foreign finalizer; over budget, any.
    fn remaining_composed(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let mut remaining = Vec::new();
        for (reference, fact) in &facts.cluster.composed {
            if let Some(Some(object)) = self.known_or_doubt("composed object", fact) {
                remaining.push((reference, object));
            }
        }
        for (reference, object) in &remaining {
            if object.paused {
                let remedy = Remedy::Unpause((*reference).clone());
                let paused = Judgement::new(Verdict::PausedOnCluster, remedy);
                return Some(with_provider(paused.with_object(Some(reference)), reference));
            }
            if let Some(condition) = error_condition(object)
                && object.deleting_since.is_some()
            {
                let mut found = self.error_condition(reference, condition);
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
        let (reference, object) = remaining.first()?;
        if !self.budget.is_over() {
            return None;
        }
        let remedy = Remedy::MendComposed((*reference).clone());
        let found = Judgement::new(Verdict::ComposedRemains, remedy).with_object(Some(reference));
        let finalizers = object.finalizers.join(", ");
        let found = found.with_message(if finalizers.is_empty() {
            "its deletion was not requested".to_owned()
        } else {
            format!("held by {finalizers}")
        });
        Some(with_provider(found.since(object.deleting_since), reference))
    }

    fn remaining_composite(&self, xr: &ObjectReport) -> Judgement {
        let Some(reference) = &self.facts.cluster.xr_reference else {
            return Judgement::no_action(Verdict::Deprovisioning);
        };
        let remedy = Remedy::FinishDeletion(reference.clone());
        let found = Judgement::new(Verdict::CompositeRemains, remedy).with_object(Some(reference));
        found.with_message(format!("held by {}", xr.finalizers.join(", "))).since(xr.deleting_since)
    }
}

fn foreign_finalizer(reference: &ObjectReference, object: &ObjectReport) -> Option<Judgement> {
    let is_foreign = |finalizer: &&String| !KNOWN_FINALIZERS.contains(&finalizer.as_str());
    let finalizer = object.finalizers.iter().find(is_foreign)?;
    let remedy =
        Remedy::RemoveFinalizer { object: reference.clone(), finalizer: finalizer.clone() };
    let found = Judgement::new(Verdict::ForeignFinalizer, remedy).with_object(Some(reference));
    Some(found.with_message(format!("held by {finalizer}")).since(object.deleting_since))
}
