//! Why Crossplane does not report a composite resource ready: itself, or one of its composed objects.

use broker_domain::ObjectReference;
use broker_ports::{Condition, ConditionStatus, ObjectReport};

use super::converge::{condition, unsynced, was_paused};
use super::messages::{Theme, theme};
use super::{Judge, Judgement};
use crate::explain::budgets::in_words;
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    /// The obstacle to a ready substrate; `None` if waiting is still enough.
    pub(super) fn substrate(&mut self, xr: &ObjectReport) -> Option<Judgement> {
        let facts = self.facts;
        let reference = facts.cluster.xr_reference.as_ref();
        if xr.paused {
            let object = reference?.clone();
            let paused = Judgement::new(Verdict::PausedOnCluster, Remedy::Unpause(object));
            return Some(paused.with_object(reference));
        }
        if condition(xr, "ProvisioningFailed").is_some_and(|it| it.status == ConditionStatus::True)
        {
            // The next pass stores the failure.
            return None;
        }
        if let Some(synced) = unsynced(xr) {
            let failing = Judgement::new(Verdict::FunctionFailing, Remedy::MendComposition);
            return Some(failing.with_object(reference).with_condition(synced));
        }
        if let Some(found) = self.composed() {
            return Some(found);
        }
        let ready = condition(xr, "Ready");
        if self.doubts.is_empty() && self.budget.is_over() {
            let stuck = Judgement::new(Verdict::CompositeNotReady, Remedy::MendComposition);
            let stuck = stuck.with_object(reference);
            return Some(match ready {
                Some(ready) => stuck.with_condition(ready),
                None => stuck,
            });
        }
        None
    }

    /// The blocking composed object: first one with an error message, then one that is only not ready.
    fn composed(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let mut objects = Vec::new();
        for (reference, fact) in &facts.cluster.composed {
            if let Some(Some(object)) = self.take("composed object", fact) {
                objects.push((reference, object));
            }
        }
        let complaining = objects.iter().find_map(|(reference, object)| {
            complaint(object).map(|condition| (*reference, condition))
        });
        if let Some((reference, condition)) = complaining {
            return Some(self.complaint(reference, condition));
        }
        if let Some((reference, _)) = objects.iter().find(|(_, object)| object.paused) {
            let remedy = Remedy::Unpause((*reference).clone());
            let paused = Judgement::new(Verdict::PausedOnCluster, remedy);
            return Some(with_provider(paused.with_object(Some(reference)), reference));
        }
        let unready = |object: &ObjectReport| {
            condition(object, "Ready").is_none_or(|ready| ready.status != ConditionStatus::True)
        };
        let (reference, object) = objects.iter().find(|(_, object)| unready(object))?;
        let silent = object.conditions.is_empty();
        let allowed_silence = facts.budgets.provider_silence;
        if silent && (self.budget.used > allowed_silence || self.budget.is_over()) {
            let provider = group(reference).to_owned();
            let found = Judgement::new(Verdict::ProviderSilent, Remedy::StartProvider { provider });
            return Some(
                with_provider(found.with_object(Some(reference)), reference)
                    .with_message(format!("no report for {}", in_words(self.budget.used))),
            );
        }
        if !self.budget.is_over() {
            return None;
        }
        let remedy = Remedy::MendComposed((*reference).clone());
        let found = Judgement::new(Verdict::ComposedNotReady, remedy).with_object(Some(reference));
        let found = match condition(object, "Ready") {
            Some(ready) => found.with_condition(ready),
            None => found,
        };
        Some(with_provider(found, reference))
    }

    /// The verdict for a provider's error, by its message.
    pub(super) fn complaint(
        &mut self,
        reference: &ObjectReference,
        condition: &Condition,
    ) -> Judgement {
        let facts = self.facts;
        let config = facts.cluster.provider_config_reference.as_ref();
        let found = match (theme(&condition.message), config) {
            (Theme::Secret, _) => {
                Judgement::new(Verdict::ProviderSecretMissing, Remedy::RestoreSecret)
            }
            (Theme::ProviderConfig, Some(config)) => {
                let remedy = Remedy::MendProviderConfig(config.clone());
                Judgement::new(Verdict::ProviderConfigMissing, remedy)
            }
            (Theme::Quota, _) => Judgement::new(Verdict::QuotaExceeded, Remedy::RaiseQuota),
            (Theme::ProviderConfig | Theme::Other, _) => {
                let remedy = Remedy::MendComposed(reference.clone());
                Judgement::new(Verdict::ComposedNotReady, remedy)
            }
        };
        with_provider(found.with_object(Some(reference)).with_condition(condition), reference)
    }
}

/// The condition with the error message of an object.
pub(super) fn complaint(object: &ObjectReport) -> Option<&Condition> {
    let is_complaint = |condition: &&Condition| {
        let kind = condition.kind.as_str();
        let speaks = !condition.message.is_empty() && condition.status == ConditionStatus::False;
        speaks
            && !was_paused(condition)
            && (kind == "Synced" || kind == "LastAsyncOperation" || kind == "Ready")
    };
    let synced = condition(object, "Synced").filter(is_complaint);
    synced.or_else(|| object.conditions.iter().find(is_complaint))
}

pub(super) fn with_provider(mut found: Judgement, object: &ObjectReference) -> Judgement {
    found.blocker.get_or_insert_default().provider = Some(group(object).to_owned());
    found
}

/// The API group of an object identifies its provider.
fn group(object: &ObjectReference) -> &str {
    object.api_version().split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_is_no_complaint() {
        let rows = [
            ("the provider refuses", "ReconcileError", true),
            ("the object is paused", "ReconcilePaused", false),
        ];
        for (why, reason, complains) in rows {
            let mut object = ObjectReport::new("u", 1);
            let synced = Condition::new("Synced", ConditionStatus::False);
            object.conditions.push(synced.because(reason, "words"));
            assert_eq!(complaint(&object).is_some(), complains, "{why}");
        }
    }
}
