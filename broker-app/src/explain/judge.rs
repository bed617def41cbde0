//! The verdict: a pure function from facts to one judgement.
//!
//! Questions follow the order of a pass. The first obstacle is the verdict, because removing a later one changes
//! nothing yet. An unanswered question is a doubt. With a doubt, no verdict is fine and no remedy is a guess.

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
use super::facts::{Fact, Facts};
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
    facts: &'a Facts,
    budget: BudgetUse,
    /// Unanswered questions that matter, in order.
    doubts: Vec<Doubt>,
}

struct Doubt {
    source: &'static str,
    because: String,
}

pub(super) fn judge(facts: &Facts, budget: BudgetUse) -> Judgement {
    let mut judge = Judge { facts, budget, doubts: Vec::new() };
    let found = judge.evaluate();
    // A doubt overrides a verdict that needs no action.
    match judge.doubts.into_iter().next() {
        Some(doubt) if !found.verdict.is_blocked() && !is_sure(found.verdict) => unknown(doubt),
        Some(_) | None => found,
    }
}

/// These verdicts hold whatever else is unknown.
const fn is_sure(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Abandoned | Verdict::RollingBack | Verdict::PassUnderWay)
}

fn unknown(Doubt { source, because }: Doubt) -> Judgement {
    let remedy = Remedy::AskAgain { source: source.to_owned() };
    Judgement::new(Verdict::Unknown, remedy).with_message(format!("{source}: {because}"))
}

impl<'a> Judge<'a> {
    fn evaluate(&mut self) -> Judgement {
        let phase = self.facts.resource.phase();
        if let Some(over) = self.terminal() {
            return over;
        }
        if let Some(stopped) = self.disabled() {
            return stopped;
        }
        if phase == Phase::Failed {
            return Judgement::no_action(Verdict::RollingBack);
        }
        if let Some(missing) = self.blueprint() {
            return missing;
        }
        if let Some(unreachable) = self.cluster_itself() {
            return unreachable;
        }
        if let Some(silent) = self.mesh() {
            return silent;
        }
        let found = if phase.is_teardown() { self.tearing_down() } else { self.converging() };
        if found.verdict.is_blocked() { found } else { self.events(found) }
    }

    /// Returns a fact, or records a doubt.
    fn take<T>(&mut self, source: &'static str, fact: &'a Fact<T>) -> Option<&'a T> {
        match fact {
            Fact::Known(fact) => Some(fact),
            Fact::Unknown(because) => {
                self.doubt(source, because);
                None
            }
        }
    }

    fn doubt(&mut self, source: &'static str, because: &str) {
        self.doubts.push(Doubt { source, because: because.to_owned() });
    }
}
