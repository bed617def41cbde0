//! Why a resource is where it is: what blocks, who must act, since when, and what to do next.
//!
//! [`explain`] is pure. It takes [`Facts`], each of which is known or says why it is not, and answers one
//! [`Explanation`]: a [`Verdict`] with a stable code, at most one [`Blocker`], one [`Party`], one [`Remedy`],
//! and below it the chain of facts that it follows from. [`Service::explain`](crate::Service::explain) gathers
//! the facts and calls it.

mod budgets;
mod chain;
mod facts;
mod gather;
mod json;
mod judge;
mod many;
mod remedy;
mod text;
mod verdict;

use broker_domain::{ObjectReference, Phase, ProvisionedResourceId};
use broker_render::scrub;
use time::OffsetDateTime;

pub use budgets::{BudgetUse, Budgets};
pub use chain::{FactLine, FactStatus};
pub use facts::{ClusterFacts, Fact, Facts, Outage, Reference, ReferenceKind, Transition};
pub(crate) use json::reference;
pub use many::ExplainedPage;
pub use remedy::Remedy;
pub use verdict::{Party, Verdict};

use judge::Judgement;

/// Why a resource is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// Which resource.
    pub resource: ProvisionedResourceId,
    /// Its phase; `None` where not even its row could be read.
    pub phase: Option<Phase>,
    /// The verdict.
    pub verdict: Verdict,
    /// What stands in the way, as far as it has a name.
    pub blocker: Option<Blocker>,
    /// Who has to act.
    pub party: Party,
    /// Since when it is so, as far as that is known.
    pub since: Option<OffsetDateTime>,
    /// How much of its phase's budget is used.
    pub budget: Option<BudgetUse>,
    /// When it is looked at again.
    pub next_attempt: NextAttempt,
    /// What to do next.
    pub action: Remedy,
    /// What all of this follows from.
    pub facts: Vec<FactLine>,
    /// The last changes of phase, newest first.
    pub transitions: Vec<Transition>,
}

/// What stands in the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocker {
    /// The object that it shows on.
    pub object: Option<ObjectReference>,
    /// Who makes that object, by API group, where it was composed.
    pub provider: Option<String>,
    /// The condition that says so, such as `Synced=False (ReconcileError)`.
    pub condition: Option<String>,
    /// What was said about it, in its own words, shortened and without secrets.
    pub message: Option<String>,
}

/// When a resource is looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextAttempt {
    /// It is due now.
    Now,
    /// At this moment, by the store's clock.
    At(OffsetDateTime),
    /// When its objects change, or by the next sweep.
    OnChange,
    /// Never: it is at rest, or told to be left alone.
    Never,
    /// That could not be learnt.
    Unknown,
}

/// Words of others are kept this short in an explanation; the whole is where they said it.
const LONGEST_MESSAGE: usize = 320;

/// The last changes of phase that are worth showing.
const TRANSITIONS: usize = 5;

/// Explains one resource from what is known of it. Pure: the same facts give the same explanation.
pub fn explain(facts: &Facts) -> Explanation {
    let resource = &facts.resource;
    let phase = resource.phase();
    let budget = BudgetUse::of(&facts.budgets, phase, resource.phase_entered_at(), facts.now);
    let Judgement { verdict, blocker, since, remedy } = judge::judge(facts, budget);
    Explanation {
        resource: resource.id(),
        phase: Some(phase),
        verdict,
        blocker: blocker.map(Blocker::shortened),
        party: verdict.party(),
        since,
        budget: Some(budget),
        next_attempt: next_attempt(facts),
        action: remedy,
        facts: chain::chain(facts),
        transitions: facts
            .transitions
            .known()
            .map(|all| all.iter().take(TRANSITIONS).copied().collect())
            .unwrap_or_default(),
    }
}

/// The explanation of a resource whose row cannot be read: the store is what has to come back first.
pub(crate) fn without_row(resource: ProvisionedResourceId, because: &str) -> Explanation {
    let blocker = Blocker { message: Some(because.to_owned()), ..Blocker::default() };
    Explanation {
        resource,
        phase: None,
        verdict: Verdict::StoreUnreachable,
        blocker: Some(blocker.shortened()),
        party: Verdict::StoreUnreachable.party(),
        since: None,
        budget: None,
        next_attempt: NextAttempt::Unknown,
        action: Remedy::RestoreStore,
        facts: vec![FactLine::unknown("row", because)],
        transitions: Vec::new(),
    }
}

fn next_attempt(facts: &Facts) -> NextAttempt {
    if facts.resource.at_rest() {
        return NextAttempt::Never;
    }
    match &facts.schedule {
        Fact::Unknown(_) | Fact::Known(None) => NextAttempt::Unknown,
        Fact::Known(Some(entry)) if entry.paused => NextAttempt::Never,
        Fact::Known(Some(entry)) => {
            let held = entry.lease.as_ref().map(|(_, until)| *until).filter(|it| *it > entry.now);
            match (held, entry.due_at) {
                (Some(until), _) => NextAttempt::At(until),
                (None, Some(due)) if due > entry.now => NextAttempt::At(due),
                (None, Some(_)) => NextAttempt::Now,
                (None, None) => NextAttempt::OnChange,
            }
        }
    }
}

impl Blocker {
    /// Whatever others said is one line of bounded length. Injected values were scrubbed where they were at
    /// hand, in the adapter; here nothing is added that could hold one.
    fn shortened(mut self) -> Self {
        self.message = self.message.map(|message| shortened(&message));
        self
    }
}

fn shortened(message: &str) -> String {
    let line = scrub(message, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= LONGEST_MESSAGE {
        return line;
    }
    let cut = line.floor_char_boundary(LONGEST_MESSAGE);
    format!("{}…", &line[..cut])
}
