//! The rules of the protocol, each of which can be switched off, and what must never happen.
//!
//! A rule is switched off around the decisions, never in them: by doing something else than what the step
//! asked for, or by telling it something else than what is so.

use std::fmt;

/// A rule that a history exists for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// The composite resource begins as a shell, which composes nothing.
    Shell,
    /// A shell that an earlier pass left is touched before anything builds on it.
    Touch,
    /// The issuer refuses whoever lost its lease.
    IssuerEpoch,
    /// The issuer refuses whoever asks for what was closed.
    IssuerClosed,
    /// A write is refused when the row has changed since it was read.
    VersionGuard,
    /// A token that was consumed is not handed out again.
    Consumed,
    /// Tokens are closed before a teardown looks at anything.
    CloseFirst,
    /// The ProviderConfig goes when nothing that was composed is left.
    ConfigLast,
    /// A ProviderConfig that a provider still needs is put back when it is missing.
    ConfigRestored,
    /// What was composed is also looked for by its label.
    LabelList,
    /// A write is refused when its worker has lost the lease.
    LeaseGuard,
    /// Absence needs a direct read.
    DirectRead,
    /// An act ends before its lease does.
    ActWithinLease,
    /// A shell is known by what it is armed with, not by its pause: people pause, too.
    ArmedTells,
    /// A token that was answered is looked at before anything is armed with it: the request may have been
    /// performed twice.
    IssueChecked,
    /// What arrives for a row that is Deleted is found and removed by a sweep.
    OrphansFound,
    /// What was lost is created again only with a permit, of which there are so many.
    Permit,
    /// A Secret leaves the record only when a foreground deletion of its owner was seen.
    ForegroundSeen,
}

/// What must never happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Violation {
    /// S1: a write went along no legal edge, or out of a sink.
    IllegalEdge,
    /// S2: a change of phase without its event, or an event without a change of phase.
    EventMismatch,
    /// S3: a gap or a repetition in the numbers of events or versions.
    BrokenSequence,
    /// S4: a token can be consumed although closing was confirmed.
    TokenAfterClose,
    /// S5: substrate was deleted under a live Node, or while one could still appear.
    DeletedUnderNode,
    /// S7: Deleted was written although something was left.
    LeftBehind,
    /// S8: something was deleted that nobody wanted deleted.
    UnwantedDeletion,
    /// S8: the Node of a machine that is wanted was told to leave.
    HealthyNodeLeft,
    /// S9: something was composed, or a Node enrolled, after Deleted.
    LifeAfterDeleted,
    /// S11: Ready was written on a condition that spoke of another generation.
    StaleReady,
    /// S11: Ready was written for the Node of a machine that no composite resource stands for.
    OrphanedMachine,
    /// S16: a worker that had lost its lease changed the row.
    WriteWithoutLease,
    /// A composite resource was armed with a token that nobody can enrol with.
    DeadToken,
    /// The ProviderConfig went before what needs it to go.
    ConfigGoneFirst,
    /// S17: more was created again than the budget allows.
    OverBudget,
}

impl Violation {
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Everything that went wrong so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Violations(u16);

impl Violations {
    pub(super) const fn add(&mut self, violation: Violation) {
        self.0 |= violation.bit();
    }

    pub(super) const fn has(self, violation: Violation) -> bool {
        self.0 & violation.bit() != 0
    }

    pub(super) const fn any(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#b}", self.0)
    }
}
