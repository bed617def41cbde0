//! The verdict: a pure function from facts to one judgement.
//!
//! The checks follow the order of a pass. The first obstacle is the verdict: removing a later one would not help yet.
//! An unknown fact that a check needs is recorded as a doubt. With a doubt, a verdict that needs no action becomes
//! `unknown`.

mod cluster;
mod converge;
mod gates;
mod messages;
mod progress;
mod substrate;
mod teardown;

use broker_domain::{ObjectReference, Phase};
use broker_ports::{Condition, ConditionStatus};
use time::OffsetDateTime;

use super::Blocker;
use super::budgets::BudgetUse;
use super::facts::{Gathered, ExplainInput};
use super::remedy::Remedy;
use super::verdict::Verdict;

#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) blocker: Option<Blocker>,
    pub(super) since: Option<OffsetDateTime>,
    pub(super) remedy: Remedy,
}

impl Judgement {
    fn new(verdict: Verdict, remedy: Remedy) -> Self {
        Self { verdict, blocker: None, since: None, remedy }
    }

    /// In progress or terminal: no action needed.
    fn no_action(verdict: Verdict) -> Self {
        Self::new(verdict, Remedy::Wait)
    }

    fn with_object(mut self, object: Option<&ObjectReference>) -> Self {
        self.blocker.get_or_insert_default().object = object.cloned();
        self
    }

    fn with_message(mut self, message: impl Into<String>) -> Self {
        let message = message.into();
        if !message.is_empty() {
            self.blocker.get_or_insert_default().message = Some(message);
        }
        self
    }

    fn with_condition(mut self, condition: &Condition) -> Self {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        let Condition { kind, reason, .. } = condition;
        let because = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        self.blocker.get_or_insert_default().condition = Some(format!("{kind}={status}{because}"));
        self.since = self.since.or(condition.since);
        self.with_message(condition.message.clone())
    }

    fn since(mut self, moment: Option<OffsetDateTime>) -> Self {
        self.since = self.since.or(moment);
        self
    }
}

struct Judge<'a> {
    facts: &'a ExplainInput,
    budget: BudgetUse,
    /// Unknown facts that a check needed, in the order of the checks.
    doubts: Vec<Doubt>,
}

/// An unknown fact that a check needed.
struct Doubt {
    source: &'static str,
    because: String,
}

pub(super) fn judge(facts: &ExplainInput, budget: BudgetUse) -> Judgement {
    let mut judge = Judge { facts, budget, doubts: Vec::new() };
    let found = judge.evaluate();
    // A doubt overrides a verdict that needs no action.
    match judge.doubts.into_iter().next() {
        Some(doubt) if !found.verdict.is_blocked() && !overrides_doubts(found.verdict) => {
            unknown(doubt)
        }
        Some(_) | None => found,
    }
}

/// Whether a verdict holds even if other facts are unknown.
const fn overrides_doubts(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Abandoned | Verdict::RollingBack | Verdict::PassUnderWay)
}

fn unknown(Doubt { source, because }: Doubt) -> Judgement {
    let remedy = Remedy::AskAgain { source: source.to_owned() };
    Judgement::new(Verdict::Unknown, remedy).with_message(format!("{source}: {because}"))
}

impl<'a> Judge<'a> {
    fn evaluate(&mut self) -> Judgement {
        let phase = self.facts.resource.phase();
        if let Some(found) = self.terminal() {
            return found;
        }
        if let Some(found) = self.disabled() {
            return found;
        }
        if phase == Phase::Failed {
            return Judgement::no_action(Verdict::RollingBack);
        }
        if let Some(found) = self.missing_blueprint() {
            return found;
        }
        if let Some(found) = self.cluster_outage() {
            return found;
        }
        if let Some(found) = self.mesh_outage() {
            return found;
        }
        let found = if phase.is_teardown() { self.tearing_down() } else { self.converging() };
        if found.verdict.is_blocked() { found } else { self.dead_letter_or(found) }
    }

    /// Returns a known fact; records a doubt if it is unknown.
    fn known_or_doubt<T>(&mut self, source: &'static str, fact: &'a Gathered<T>) -> Option<&'a T> {
        match fact {
            Gathered::Known(fact) => Some(fact),
            Gathered::Unknown(because) => {
                self.add_doubt(source, because);
                None
            }
        }
    }

    fn add_doubt(&mut self, source: &'static str, because: &str) {
        self.doubts.push(Doubt { source, because: because.to_owned() });
    }
}
