//! The verdict, pure: facts in, one judgement out.
//!
//! The questions are asked in the order in which a pass meets what they are about, and the first thing that
//! stops it is the verdict: removing anything behind it would change nothing yet. A question that cannot be
//! answered is a doubt. With a doubt nothing is called fine, and nobody is told to act on a guess.

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

/// What was found to stand in the way.
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

    /// On its way, or at its end: nobody has to do anything.
    fn calm(verdict: Verdict) -> Self {
        Self::new(verdict, Remedy::Wait)
    }

    fn about(mut self, object: Option<&ObjectReference>) -> Self {
        self.blocker.get_or_insert_default().object = object.cloned();
        self
    }

    fn saying(mut self, message: impl Into<String>) -> Self {
        let message = message.into();
        if !message.is_empty() {
            self.blocker.get_or_insert_default().message = Some(message);
        }
        self
    }

    fn by(mut self, condition: &Condition) -> Self {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        let Condition { kind, reason, .. } = condition;
        let because = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        self.blocker.get_or_insert_default().condition = Some(format!("{kind}={status}{because}"));
        self.since = self.since.or(condition.since);
        self.saying(condition.message.clone())
    }

    fn since(mut self, moment: Option<OffsetDateTime>) -> Self {
        self.since = self.since.or(moment);
        self
    }
}

/// One judgement under way.
struct Judge<'a> {
    facts: &'a Facts,
    budget: BudgetUse,
    /// What could not be learnt although it matters, the first first.
    doubts: Vec<Doubt>,
}

/// A question that could not be answered.
struct Doubt {
    source: &'static str,
    because: String,
}

pub(super) fn judge(facts: &Facts, budget: BudgetUse) -> Judgement {
    let mut judge = Judge { facts, budget, doubts: Vec::new() };
    let found = judge.look();
    // A doubt that came up on the way to something calm means that it may not be.
    match judge.doubts.into_iter().next() {
        Some(doubt) if !found.verdict.is_blocked() && !is_sure(found.verdict) => unknown(doubt),
        Some(_) | None => found,
    }
}

/// What is over is over, whatever else is not known.
const fn is_sure(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Abandoned | Verdict::RollingBack | Verdict::PassUnderWay)
}

fn unknown(Doubt { source, because }: Doubt) -> Judgement {
    let remedy = Remedy::AskAgain { source: source.to_owned() };
    Judgement::new(Verdict::Unknown, remedy).saying(format!("{source}: {because}"))
}

impl<'a> Judge<'a> {
    fn look(&mut self) -> Judgement {
        let phase = self.facts.resource.phase();
        if let Some(over) = self.at_its_end() {
            return over;
        }
        if let Some(stopped) = self.stopped_here() {
            return stopped;
        }
        if phase == Phase::Failed {
            return Judgement::calm(Verdict::RollingBack);
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

    /// Takes a fact, or notes that it is in doubt.
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
