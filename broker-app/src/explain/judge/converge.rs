//! On the way up: from nothing to an armed composite resource, to a substrate that is ready, to a Node.

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
        let xr = self.take("composite resource", &facts.cluster.xr);
        if let Some(false) = self.take("kind", &facts.cluster.kind_installed)
            && let Some(reference) = &facts.cluster.xr_reference
        {
            let remedy = Remedy::InstallKind {
                api_version: reference.api_version().to_owned(),
                kind: reference.kind().to_owned(),
            };
            return Judgement::new(Verdict::KindMissing, remedy).about(Some(reference));
        }
        if xr.is_some_and(|xr| self.decides_to_apply(xr.as_ref()))
            && let Some(missing) = self.rendering()
        {
            return missing;
        }
        match xr {
            None => self.last_pass().unwrap_or_else(|| self.progress()),
            Some(None) => self.without_composite(),
            Some(Some(xr)) if xr.deleting_since.is_some() => self.being_deleted(xr),
            Some(Some(xr)) if xr.armed.is_none() => self.without_composite(),
            Some(Some(xr)) => self.armed(xr),
        }
    }

    /// The composite resource has to be created, or a shell to be armed.
    fn without_composite(&mut self) -> Judgement {
        if let Some(found) = self.brake() {
            return found;
        }
        if let Some(found) = self.home() {
            return found;
        }
        if let Some(found) = self.last_pass() {
            return found;
        }
        self.progress()
    }

    /// Somebody else is deleting it. It still accepts an apply, and gets none.
    fn being_deleted(&mut self, xr: &ObjectReport) -> Judgement {
        if let Some(found) = self.held(xr) {
            return found;
        }
        let reference = self.facts.cluster.xr_reference.as_ref();
        let going = Judgement::calm(Verdict::CompositeBeingDeleted).about(reference);
        going.since(xr.deleting_since)
    }

    fn armed(&mut self, xr: &ObjectReport) -> Judgement {
        if !self.is_our_arming(xr) {
            let facts = self.facts;
            let Some(reference) = &facts.cluster.xr_reference else { return self.progress() };
            let remedy = Remedy::DeleteComposite(reference.clone());
            let words = format!("armed with {}", xr.armed.as_deref().unwrap_or_default());
            let foreign = Judgement::new(Verdict::ArmingForeign, remedy);
            return foreign.about(Some(reference)).saying(words);
        }
        // A pass that wants to apply and may not is over before it looks any further.
        if self.wants_to_apply(xr)
            && let Some(found) = self.last_pass()
        {
            return found;
        }
        if let Some(found) = self.rivals(xr) {
            return found;
        }
        if let Some(found) = self.foreign_composition(xr) {
            return found;
        }
        if self.is_ready(xr) {
            return self.with_substrate(xr);
        }
        self.substrate(xr).unwrap_or_else(|| self.progress())
    }

    fn is_our_arming(&self, xr: &ObjectReport) -> bool {
        let resource = &self.facts.resource;
        let own = Armed::of(resource.mesh_role(), resource.bootstrap_token_id());
        own.is_some_and(|own| xr.armed.as_deref() == Some(own.to_string().as_str()))
    }

    /// Whether `next` answers Apply, so that the pass resolves what the objects are rendered from.
    fn decides_to_apply(&self, xr: Option<&ObjectReport>) -> bool {
        let Some(xr) = xr else { return true };
        let failed = condition(xr, "ProvisioningFailed");
        failed.is_none_or(|it| it.status != ConditionStatus::True)
            && !(self.is_ready(xr) && self.node_is_settled())
    }

    /// As a pass decides it: not once everything stands.
    fn wants_to_apply(&self, xr: &ObjectReport) -> bool {
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

    /// As an observation counts it: a True that speaks of an older generation does not count on the way up.
    pub(super) fn is_ready(&self, xr: &ObjectReport) -> bool {
        let Some(ready) = condition(xr, "Ready") else { return false };
        let fresh = self.facts.resource.phase() == Phase::Ready
            || ready.observed_generation.is_none_or(|generation| generation == xr.generation);
        ready.status == ConditionStatus::True && fresh && xr.deleting_since.is_none()
    }

    /// Others may agree with us; they are in the way only where what stands is not what we would send.
    fn rivals(&self, xr: &ObjectReport) -> Option<Judgement> {
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
        Some(found.about(Some(&object)).saying(words))
    }

    /// Someone let it use another Composition, or none. A pass leaves that alone: to change it back deletes
    /// what stands.
    fn foreign_composition(&self, xr: &ObjectReport) -> Option<Judgement> {
        let cluster = &self.facts.cluster;
        let (composition, object) =
            (self.facts.composition.clone()?, cluster.xr_reference.clone()?);
        if xr.composition.as_deref() == Some(composition.as_str()) {
            return None;
        }
        let words = match &xr.composition {
            Some(other) => format!("it uses {other}, the blueprint has {composition}"),
            None => format!("it names no Composition, the blueprint has {composition}"),
        };
        let remedy = Remedy::PinComposition { object, composition };
        let found = Judgement::new(Verdict::CompositionForeign, remedy);
        Some(found.about(cluster.xr_reference.as_ref()).saying(words))
    }

    /// The substrate is up. What is left is the Node, if there is to be one.
    fn with_substrate(&mut self, xr: &ObjectReport) -> Judgement {
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
            return Judgement::new(verdict, remedy).about(reference).by(synced);
        }
        if let Some(found) = self.drift(xr) {
            return found;
        }
        self.progress()
    }

    /// What is Ready is not applied again: a change by another writer stands until a person decides. A missing
    /// ProviderConfig is put back by the next pass, unless that failed.
    fn drift(&mut self, xr: &ObjectReport) -> Option<Judgement> {
        let facts = self.facts;
        if facts.resource.phase() != Phase::Ready {
            return None;
        }
        let config = facts.cluster.provider_config_reference.as_ref();
        let standing = self.take("ProviderConfig", &facts.cluster.provider_config);
        if let (Some(None), Some(reference)) = (standing, config) {
            let missing = || {
                let remedy = Remedy::MendProviderConfig(reference.clone());
                Judgement::new(Verdict::ProviderConfigMissing, remedy).about(Some(reference))
            };
            let found = self.rendering().or_else(|| self.last_pass());
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
        Some(found.about(Some(&object)).saying(words))
    }

    /// The agent has to call, once, while its token is good.
    fn enrolling(&mut self) -> Judgement {
        let facts = self.facts;
        let lost = Remedy::Replace(facts.resource.id());
        let Some(token) = &facts.token else { return self.progress() };
        let Some(state) = self.take("token", token) else { return self.progress() };
        match state {
            Some(TokenState::Live { expires_at }) => {
                if self.budget.is_over() {
                    let silent = Judgement::new(Verdict::NodeNeverCalled, Remedy::LookAtAgent);
                    return silent.saying(format!("its token is good until {expires_at}"));
                }
                self.progress()
            }
            Some(TokenState::Expired { at }) => {
                Judgement::new(Verdict::TokenExpired, lost).since(Some(*at))
            }
            Some(TokenState::Consumed { at }) => {
                Judgement::new(Verdict::NodeLost, lost).saying(format!("it enrolled at {at}"))
            }
            Some(TokenState::Invalidated) => {
                Judgement::new(Verdict::TokenInvalid, lost).saying("it was invalidated")
            }
            None => {
                Judgement::new(Verdict::TokenInvalid, lost).saying("the issuer does not know it")
            }
            Some(_) => {
                self.doubt("token", "it is in a state that this release does not know");
                self.progress()
            }
        }
    }
}

/// A condition of an object, by its type.
pub(super) fn condition<'a>(object: &'a ObjectReport, kind: &str) -> Option<&'a Condition> {
    object.conditions.iter().find(|condition| condition.kind == kind)
}

/// The condition by which Crossplane says that it cannot keep an object up to date.
///
/// What it said about a pause stands there until it looks again, be the pause long over: every shell leaves that
/// behind. The generation that a condition speaks of does not tell, because a pause changes none.
pub(super) fn unsynced(object: &ObjectReport) -> Option<&Condition> {
    let synced = condition(object, "Synced").filter(|it| it.status == ConditionStatus::False)?;
    (object.paused || !was_paused(synced)).then_some(synced)
}

/// Whether a condition says no more than that the object was paused when it was looked at.
pub(super) fn was_paused(condition: &Condition) -> bool {
    condition.reason == "ReconcilePaused"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_about_a_pause_that_is_over_is_no_failure() {
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
