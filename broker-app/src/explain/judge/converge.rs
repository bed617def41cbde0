//! The obstacles of a converging resource: to its composite resource, its substrate and its Node.

use broker_domain::{MeshRole, Phase};
use broker_ports::{Condition, ConditionStatus, ObjectReport, TokenState};
use broker_render::Armed;

use super::{Judge, Judgement};
use crate::explain::facts::Reference;
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    pub(super) fn converging(&mut self) -> Judgement {
        let facts = self.facts;
        let xr = self.known_or_doubt("composite resource", &facts.cluster.xr);
        if let Some(false) = self.known_or_doubt("kind", &facts.cluster.kind_installed)
            && let Some(reference) = &facts.cluster.xr_reference
        {
            let remedy = Remedy::InstallKind {
                api_version: reference.api_version().to_owned(),
                kind: reference.kind().to_owned(),
            };
            return Judgement::new(Verdict::KindMissing, remedy).with_object(Some(reference));
        }
        if xr.is_some_and(|xr| self.decides_to_apply(xr.as_ref()))
            && let Some(missing) = self.rendering_obstacle()
        {
            return missing;
        }
        match xr {
            None => self.last_pass_error().unwrap_or_else(|| self.progress()),
            Some(None) => self.missing_or_shell(),
            Some(Some(xr)) if xr.deleting_since.is_some() => self.being_deleted(xr),
            Some(Some(xr)) if xr.armed.is_none() => self.missing_or_shell(),
            Some(Some(xr)) => self.armed_composite(xr),
        }
    }

    /// A pass has to create the composite resource or arm a shell.
    fn missing_or_shell(&mut self) -> Judgement {
        if let Some(found) = self.brake_obstacle() {
            return found;
        }
        if let Some(found) = self.namespace_obstacle() {
            return found;
        }
        if let Some(found) = self.withdrawn_credential() {
            return found;
        }
        if let Some(found) = self.last_pass_error() {
            return found;
        }
        if let Some(found) = self.leaving_config() {
            return found;
        }
        self.progress()
    }

    /// Another writer deletes the composite resource. No pass applies it until it is gone.
    fn being_deleted(&mut self, xr: &ObjectReport) -> Judgement {
        if let Some(found) = self.deletion_obstacle(xr) {
            return found;
        }
        let reference = self.facts.cluster.xr_reference.as_ref();
        let found = Judgement::no_action(Verdict::CompositeBeingDeleted).with_object(reference);
        found.since(xr.deleting_since)
    }

    fn armed_composite(&mut self, xr: &ObjectReport) -> Judgement {
        if !self.is_our_arming(xr) {
            let facts = self.facts;
            let Some(reference) = &facts.cluster.xr_reference else { return self.progress() };
            let remedy = Remedy::DeleteComposite(reference.clone());
            let words = format!("armed with {}", xr.armed.as_deref().unwrap_or_default());
            let found = Judgement::new(Verdict::ArmingForeign, remedy);
            return found.with_object(Some(reference)).with_message(words);
        }
        // A failed apply ends the pass.
        if self.needs_apply(xr)
            && let Some(found) = self.last_pass_error()
        {
            return found;
        }
        if let Some(found) = self.ownership_conflict(xr) {
            return found;
        }
        if let Some(found) = self.foreign_composition(xr) {
            return found;
        }
        if self.is_ready(xr) {
            return self.ready_substrate(xr);
        }
        self.substrate_obstacle(xr).unwrap_or_else(|| self.progress())
    }

    fn is_our_arming(&self, xr: &ObjectReport) -> bool {
        let resource = &self.facts.resource;
        let own = Armed::of(resource.mesh_role(), resource.bootstrap_token_id());
        own.is_some_and(|own| xr.armed.as_deref() == Some(own.to_string().as_str()))
    }

    /// Whether `next` returns Apply, so that a pass resolves the references.
    fn decides_to_apply(&self, xr: Option<&ObjectReport>) -> bool {
        let Some(xr) = xr else { return true };
        let failed = condition(xr, "ProvisioningFailed");
        failed.is_none_or(|it| it.status != ConditionStatus::True)
            && !(self.is_ready(xr) && self.node_is_settled())
    }

    /// Whether a pass applies the composite resource: not once the resource is Ready and still so.
    fn needs_apply(&self, xr: &ObjectReport) -> bool {
        let settled = self.is_ready(xr) && self.node_is_settled();
        !settled || self.facts.resource.phase() != Phase::Ready
    }

    pub(super) fn node_is_settled(&self) -> bool {
        match (self.facts.resource.mesh_role(), &self.facts.node) {
            (MeshRole::Standalone, _) => true,
            (MeshRole::Node, Some(Reference::Found(registered))) => *registered,
            (MeshRole::Node, _) => false,
        }
    }

    /// Whether an observation counts it as ready: while converging, `True` of an older generation does not count.
    pub(super) fn is_ready(&self, xr: &ObjectReport) -> bool {
        let Some(ready) = condition(xr, "Ready") else { return false };
        let fresh = self.facts.resource.phase() == Phase::Ready
            || ready.observed_generation.is_none_or(|generation| generation == xr.generation);
        ready.status == ConditionStatus::True && fresh && xr.deleting_since.is_none()
    }

    /// Other field managers are an obstacle only if the object differs from what a pass would send.
    fn ownership_conflict(&self, xr: &ObjectReport) -> Option<Judgement> {
        let facts = self.facts;
        let Some(Ok(Some(desired))) = &facts.desired else { return None };
        let drifted = xr.owned.as_ref() != Some(desired);
        if xr.rival_managers.is_empty() || !drifted || facts.resource.phase() == Phase::Ready {
            return None;
        }
        let object = facts.cluster.xr_reference.clone()?;
        let managers = xr.rival_managers.clone();
        let words = format!("also written by {}", managers.join(", "));
        let remedy = Remedy::StopRivals { object: object.clone(), managers };
        let found = Judgement::new(Verdict::OwnershipConflict, remedy);
        Some(found.with_object(Some(&object)).with_message(words))
    }

    /// Another writer changed or removed the Composition reference. A pass does not restore it, because Crossplane would
    /// delete the existing objects.
    fn foreign_composition(&self, xr: &ObjectReport) -> Option<Judgement> {
        let cluster = &self.facts.cluster;
        let (composition, object) =
            (self.facts.composition.clone()?, cluster.xr_reference.clone()?);
        if xr.composition.as_deref() == Some(composition.as_str()) {
            return None;
        }
        let words = match &xr.composition {
            Some(other) => format!("it uses {other}, the blueprint names {composition}"),
            None => format!("it names no Composition, the blueprint names {composition}"),
        };
        let remedy = Remedy::PinComposition { object, composition };
        let found = Judgement::new(Verdict::CompositionForeign, remedy);
        Some(found.with_object(cluster.xr_reference.as_ref()).with_message(words))
    }

    /// The substrate is ready. A Node may still have to enrol.
    fn ready_substrate(&mut self, xr: &ObjectReport) -> Judgement {
        if !self.node_is_settled() {
            return self.enrolling();
        }
        if let Some(synced) = unsynced(xr)
            && self.facts.resource.phase() == Phase::Ready
        {
            let reference = self.facts.cluster.xr_reference.as_ref();
            let (verdict, remedy) = if xr.paused {
                let object = reference.cloned();
                (Verdict::PausedOnCluster, object.map_or(Remedy::MendComposition, Remedy::Unpause))
            } else {
                (Verdict::Degraded, Remedy::MendComposition)
            };
            return Judgement::new(verdict, remedy).with_object(reference).with_condition(synced);
        }
        if let Some(found) = self.drift_obstacle(xr) {
            return found;
        }
        if self.facts.resource.phase() == Phase::Ready
            && let Some(found) = self.withdrawn_credential()
        {
            return found;
        }
        self.progress()
    }

    /// No pass applies a Ready resource again, so a change by another writer persists. The next pass restores a
    /// missing ProviderConfig, unless that failed.
    fn drift_obstacle(&mut self, xr: &ObjectReport) -> Option<Judgement> {
        let facts = self.facts;
        if facts.resource.phase() != Phase::Ready {
            return None;
        }
        let config = facts.cluster.provider_config_reference.as_ref();
        let config_report = self.known_or_doubt("ProviderConfig", &facts.cluster.provider_config);
        if let (Some(None), Some(reference)) = (config_report, config) {
            let missing = || {
                let remedy = Remedy::MendProviderConfig(reference.clone());
                Judgement::new(Verdict::ProviderConfigMissing, remedy).with_object(Some(reference))
            };
            let found = self.rendering_obstacle().or_else(|| self.last_pass_error());
            return Some(found.unwrap_or_else(missing));
        }
        let object = facts.cluster.xr_reference.clone()?;
        if !xr.drifted {
            return None;
        }
        let managers = xr.rival_managers.clone();
        let words = match managers.as_slice() {
            [] => "a field that the broker applied was removed or changed".to_owned(),
            managers => format!("also written by {}", managers.join(", ")),
        };
        let remedy = Remedy::UndoChange { object: object.clone(), managers };
        let found = Judgement::new(Verdict::Drifted, remedy);
        Some(found.with_object(Some(&object)).with_message(words))
    }

    /// The agent has to enrol while its token is valid.
    fn enrolling(&mut self) -> Judgement {
        let facts = self.facts;
        let replace = Remedy::Replace(facts.resource.id());
        let Some(token) = &facts.token else { return self.progress() };
        let Some(state) = self.known_or_doubt("token", token) else { return self.progress() };
        let refusal = facts.enrolment_refusal.as_ref();
        let refused = refusal
            .map(|(at, reason)| format!("the control plane refused its agent at {at}: {reason}"));
        match state {
            Some(TokenState::Live { expires_at }) => {
                if let Some(refused) = refused {
                    return Judgement::new(Verdict::NodeNeverCalled, Remedy::LookAtAgent)
                        .since(refusal.map(|(at, _)| *at))
                        .with_message(refused);
                }
                if self.budget.is_over() {
                    let found = Judgement::new(Verdict::NodeNeverCalled, Remedy::LookAtAgent);
                    return found.with_message(format!("its token is valid until {expires_at}"));
                }
                self.progress()
            }
            Some(TokenState::Expired { at }) => {
                let found = Judgement::new(Verdict::TokenExpired, replace).since(Some(*at));
                match refused {
                    Some(refused) => found.with_message(refused),
                    None => found,
                }
            }
            Some(TokenState::Consumed { at }) => Judgement::new(Verdict::NodeLost, replace)
                .with_message(format!("it enrolled at {at}")),
            Some(TokenState::Invalidated) => Judgement::new(Verdict::TokenInvalid, replace)
                .with_message(refused.unwrap_or_else(|| "it was invalidated".to_owned())),
            None => Judgement::new(Verdict::TokenInvalid, replace)
                .with_message("the issuer does not know it"),
            Some(_) => {
                self.add_doubt("token", "this release does not know its state");
                self.progress()
            }
        }
    }
}

pub(super) fn condition<'a>(object: &'a ObjectReport, kind: &str) -> Option<&'a Condition> {
    object.conditions.iter().find(|condition| condition.kind == kind)
}

/// The condition by which Crossplane reports that it cannot keep an object up to date.
///
/// `ReconcilePaused` persists after a pause until Crossplane reconciles again, so an armed shell has it at first. The
/// generation does not reveal this, because a pause does not change it.
pub(super) fn unsynced(object: &ObjectReport) -> Option<&Condition> {
    let synced = condition(object, "Synced").filter(|it| it.status == ConditionStatus::False)?;
    (object.paused || !was_paused(synced)).then_some(synced)
}

/// Whether the condition only reports a pause.
pub(super) fn was_paused(condition: &Condition) -> bool {
    condition.reason == "ReconcilePaused"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_of_an_ended_pause_is_not_a_failure() {
        use ConditionStatus::{False, True};
        let rows = [
            ("it works", True, "ReconcileSuccess", false, false),
            ("a function fails", False, "ReconcileError", false, true),
            ("it failed before it was paused", False, "ReconcileError", true, true),
            ("it is paused", False, "ReconcilePaused", true, true),
            ("it was paused", False, "ReconcilePaused", false, false),
        ];
        for (why, status, reason, paused, counts) in rows {
            let mut object = ObjectReport::new("u", 1);
            object.paused = paused;
            object.conditions.push(Condition::new("Synced", status).because(reason, "words"));
            assert_eq!(unsynced(&object).is_some(), counts, "{why}");
        }
    }
}
