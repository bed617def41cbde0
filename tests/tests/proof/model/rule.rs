//! The rules of the protocol, each of which can be disabled, and the violations.
//!
//! A rule is disabled around the decisions, never inside them: the model executes something other
//! than the step requested, or returns a false result.

use std::fmt;

/// A rule with a counterexample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// The composite resource begins as a shell, which composes nothing.
    Shell,
    /// A shell of an earlier pass is touched before anything depends on it.
    Touch,
    /// The issuer refuses a worker that has lost its lease.
    IssuerEpoch,
    /// The issuer refuses a resource whose tokens are closed.
    IssuerClosed,
    /// A write fails if the row has changed since it was read.
    VersionGuard,
    /// A consumed token is not issued again.
    Consumed,
    /// A teardown closes the tokens before it reads anything.
    CloseFirst,
    /// The ProviderConfig is deleted after all composed objects.
    ConfigLast,
    /// A missing ProviderConfig is restored while a provider still needs it.
    ConfigRestored,
    /// Composed objects are also found by label.
    LabelList,
    /// A write fails if its worker has lost the lease.
    LeaseGuard,
    /// Absence needs a direct read.
    DirectRead,
    /// An act ends before its lease.
    ActWithinLease,
    /// A shell is recognised by its token, not by its pause: operators pause too.
    ShellByToken,
    /// An issued token is checked before it is used: the request may have been executed twice.
    IssueChecked,
    /// A sweep finds and removes objects that arrive for a Deleted row.
    OrphansFound,
    /// A lost object is recreated only with a permit, and permits are limited.
    Permit,
    /// A Secret leaves the record only after a foreground deletion of its owner was seen.
    ForegroundSeen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Violation {
    /// S1: a write along an illegal edge, or out of a terminal phase.
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
    /// S8: an object was deleted that was wanted.
    UnwantedDeletion,
    /// S8: the Node of a wanted machine was deregistered.
    HealthyNodeLeft,
    /// S9: an object was composed, or a Node enrolled, after Deleted.
    ChangeAfterDeleted,
    /// S11: Ready was written on a condition of another generation.
    StaleReady,
    /// S11: Ready was written for the Node of a machine without a composite resource.
    OrphanedMachine,
    /// S16: a worker that had lost its lease changed the row.
    WriteWithoutLease,
    /// A composite resource was armed with a token that cannot enrol any Node.
    DeadToken,
    /// The ProviderConfig was deleted before an object that needs it.
    ConfigGoneFirst,
    /// S17: more was recreated than the budget allows.
    OverBudget,
}

impl Violation {
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

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
