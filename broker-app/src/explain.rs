//! Explain: what blocks a resource, which party has to act, and the next action.
//!
//! [`explain`] is pure. Its input is [`ExplainInput`]: each fact is known, or has the reason why it is unknown. Its output is one
//! [`Explanation`]: a [`Verdict`] with a stable code, at most one [`Blocker`], one [`Party`], one [`Remedy`], and the
//! facts behind them. [`Service::explain`](crate::Service::explain) gathers the facts and calls it.

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
pub use facts::{ClusterFacts, Gathered, ExplainInput, Outage, Reference, ReferenceKind, Transition};
pub(crate) use json::reference;
pub use many::ExplainedPage;
pub use remedy::Remedy;
pub use verdict::{Party, Verdict};

use judge::Judgement;

/// What blocks a resource, and the next action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its phase; `None` if its row could not be read.
    pub phase: Option<Phase>,
    /// The verdict.
    pub verdict: Verdict,
    /// The blocking object or condition, if known.
    pub blocker: Option<Blocker>,
    /// The party that has to act.
    pub party: Party,
    /// Start of the blocking state, if known.
    pub since: Option<OffsetDateTime>,
    /// The used part of its phase's budget.
    pub budget: Option<BudgetUse>,
    /// The time of the next pass.
    pub next_attempt: NextAttempt,
    /// The next action.
    pub action: Remedy,
    /// The facts behind the verdict.
    pub facts: Vec<FactLine>,
    /// The last phase changes, newest first.
    pub transitions: Vec<Transition>,
}

/// The blocking object or condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocker {
    /// The object.
    pub object: Option<ObjectReference>,
    /// The API group of the provider that created the object, if it is a composed one.
    pub provider: Option<String>,
    /// The condition, such as `Synced=False (ReconcileError)`.
    pub condition: Option<String>,
    /// The original message, shortened and without secrets.
    pub message: Option<String>,
}

/// When the next pass runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextAttempt {
    /// It is due now.
    Now,
    /// At this time, by the store's clock.
    At(OffsetDateTime),
    /// When its objects change, or after the next sweep.
    OnChange,
    /// Never: it is terminal or paused.
    Never,
    /// The schedule could not be read.
    Unknown,
}

/// Longest quoted message in bytes; the source has the full text.
const LONGEST_MESSAGE: usize = 320;

const MAX_TRANSITIONS: usize = 5;

/// Explains one resource. Pure: the same facts give the same explanation.
pub fn explain(facts: &ExplainInput) -> Explanation {
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
        facts: chain::fact_lines(facts),
        transitions: facts
            .transitions
            .known()
            .map(|all| all.iter().take(MAX_TRANSITIONS).copied().collect())
            .unwrap_or_default(),
    }
}

/// The explanation of a resource whose row cannot be read.
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

fn next_attempt(facts: &ExplainInput) -> NextAttempt {
    if facts.resource.is_terminal() {
        return NextAttempt::Never;
    }
    match &facts.schedule {
        Gathered::Unknown(_) | Gathered::Known(None) => NextAttempt::Unknown,
        Gathered::Known(Some(entry)) if entry.paused => NextAttempt::Never,
        Gathered::Known(Some(entry)) => {
            let leased_until =
                entry.lease.as_ref().map(|(_, until)| *until).filter(|it| *it > entry.now);
            match (leased_until, entry.due_at) {
                (Some(until), _) => NextAttempt::At(until),
                (None, Some(due)) if due > entry.now => NextAttempt::At(due),
                (None, Some(_)) => NextAttempt::Now,
                (None, None) => NextAttempt::OnChange,
            }
        }
    }
}

impl Blocker {
    /// Reduces the message to one line of limited length. The adapter has already removed injected values.
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
