//! The obstacle to a ready substrate: the composite resource, or one of its composed objects.

use broker_domain::ObjectReference;
use broker_ports::{Condition, ConditionStatus, ObjectReport};

use super::converge::{condition, unsynced, was_paused};
use super::messages::{Subject, subject_of};
use super::{Judge, Judgement};
use crate::explain::budgets::human_duration;
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    /// The obstacle to a ready substrate; `None` if it may still become ready on its own.
    pub(super) fn substrate_obstacle(&mut self, xr: &ObjectReport) -> Option<Judgement> {
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
            let found = Judgement::new(Verdict::FunctionFailing, Remedy::MendComposition);
            return Some(found.with_object(reference).with_condition(synced));
        }
        if let Some(found) = self.composed_obstacle() {
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
    fn composed_obstacle(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let mut objects = Vec::new();
        for (reference, fact) in &facts.cluster.composed {
            if let Some(Some(object)) = self.known_or_doubt("composed object", fact) {
                objects.push((reference, object));
            }
        }
        let failing = objects.iter().find_map(|(reference, object)| {
            error_condition(object).map(|condition| (*reference, condition))
        });
        if let Some((reference, condition)) = failing {
            return Some(self.error_condition(reference, condition));
        }
        if let Some((reference, _)) = objects.iter().find(|(_, object)| object.paused) {
            let remedy = Remedy::Unpause((*reference).clone());
            let paused = Judgement::new(Verdict::PausedOnCluster, remedy);
            return Some(with_provider(paused.with_object(Some(reference)), reference));
        }
        let is_unready = |object: &ObjectReport| {
            condition(object, "Ready").is_none_or(|ready| ready.status != ConditionStatus::True)
        };
        let (reference, object) = objects.iter().find(|(_, object)| is_unready(object))?;
        let has_no_report = object.conditions.is_empty();
        let allowed_silence = facts.budgets.provider_silence;
        if has_no_report && (self.budget.used > allowed_silence || self.budget.is_over()) {
            let provider = api_group(reference).to_owned();
            let found = Judgement::new(Verdict::ProviderSilent, Remedy::StartProvider { provider });
            return Some(
                with_provider(found.with_object(Some(reference)), reference)
                    .with_message(format!("no report for {}", human_duration(self.budget.used))),
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
    pub(super) fn error_condition(
        &mut self,
        reference: &ObjectReference,
        condition: &Condition,
    ) -> Judgement {
        let facts = self.facts;
        let config = facts.cluster.provider_config_reference.as_ref();
        let found = match (subject_of(&condition.message), config) {
            (Subject::Secret, _) => {
                Judgement::new(Verdict::ProviderSecretMissing, Remedy::RestoreSecret)
            }
            (Subject::ProviderConfig, Some(config)) => {
                let remedy = Remedy::MendProviderConfig(config.clone());
                Judgement::new(Verdict::ProviderConfigMissing, remedy)
            }
            (Subject::Quota, _) => Judgement::new(Verdict::QuotaExceeded, Remedy::RaiseQuota),
            (Subject::ProviderConfig | Subject::Other, _) => {
                let remedy = Remedy::MendComposed(reference.clone());
                Judgement::new(Verdict::ComposedNotReady, remedy)
            }
        };
        with_provider(found.with_object(Some(reference)).with_condition(condition), reference)
    }
}

/// The condition with the error message of an object.
pub(super) fn error_condition(object: &ObjectReport) -> Option<&Condition> {
    let is_error = |condition: &&Condition| {
        let kind = condition.kind.as_str();
        let is_failed = !condition.message.is_empty() && condition.status == ConditionStatus::False;
        is_failed
            && !was_paused(condition)
            && (kind == "Synced" || kind == "LastAsyncOperation" || kind == "Ready")
    };
    let synced = condition(object, "Synced").filter(is_error);
    synced.or_else(|| object.conditions.iter().find(is_error))
}

pub(super) fn with_provider(mut found: Judgement, object: &ObjectReference) -> Judgement {
    found.blocker.get_or_insert_default().provider = Some(api_group(object).to_owned());
    found
}

/// The API group, which identifies the provider of an object.
fn api_group(object: &ObjectReference) -> &str {
    object.api_version().split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_of_a_pause_is_not_an_error() {
        let rows = [
            ("the provider refuses", "ReconcileError", true),
            ("the object is paused", "ReconcilePaused", false),
        ];
        for (why, reason, is_error) in rows {
            let mut object = ObjectReport::new("u", 1);
            let synced = Condition::new("Synced", ConditionStatus::False);
            object.conditions.push(synced.because(reason, "words"));
            assert_eq!(error_condition(&object).is_some(), is_error, "{why}");
        }
    }
}
