//! What a write carries, and what can become of it.

use broker_domain::{Change, Error, Phase, ProvisionedResource};

use crate::admitted::RequestHash;
use crate::audit::{AuditAction, AuditEntry};
use crate::context::Attribution;
use crate::lease::LeaseEpoch;

/// One write of the aggregate.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Write<'a> {
    /// The change; it names the version that it was made from.
    pub change: &'a Change,
    /// The lease of an acting worker. `None` for what a caller asked for.
    pub epoch: Option<LeaseEpoch>,
    /// To whom the audit attributes it.
    pub by: &'a Attribution,
    /// What a person wrote about it, for the audit alone.
    pub event_data: Option<&'a str>,
}

impl<'a> Write<'a> {
    /// The write of a worker that holds the resource's lease.
    pub const fn by_worker(change: &'a Change, epoch: LeaseEpoch, by: &'a Attribution) -> Self {
        Self { change, epoch: Some(epoch), by, event_data: None }
    }

    /// The write that a caller asked for.
    pub const fn by_caller(change: &'a Change, by: &'a Attribution) -> Self {
        Self { change, epoch: None, by, event_data: None }
    }

    /// With what a person wrote about it.
    #[must_use]
    pub const fn with_event_data(mut self, text: &'a str) -> Self {
        self.event_data = Some(text);
        self
    }
}

/// Which of the repository's writes one is: what it may change, and what the audit calls it.
///
/// Here, and not in an adapter, so that all of them refuse and record the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// A change of phase.
    Phase,
    /// The id of a token that was issued, before the token is put anywhere.
    ///
    /// **Caller**: puts the token nowhere unless this was committed. After `Unknown` it ends the pass; the next
    /// one reads which of the two happened.
    Token,
    /// The issuer confirmed the closing of all tokens.
    ///
    /// **Caller**: only after [`TokenIssuer::close`](crate::TokenIssuer::close) was confirmed, and before it
    /// observes anything that a deletion is decided on.
    Closed,
    /// What stands on the cluster.
    ///
    /// **Caller**: before anything is done about what was seen, in any phase. What is added was seen; what is
    /// taken out was found gone by a direct read.
    Substrate,
    /// An accepted deletion request.
    ///
    /// A caller's request carries no epoch: it goes through although a worker holds the lease, and that worker's next
    /// write then finds the version changed. **Implementer**: due at once, attempts forgotten.
    DeletionIntent,
    /// A failed resource is retried. Like a deletion request, it is a caller's and carries no epoch. **Implementer**:
    /// due at once.
    Retry,
}

impl WriteKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Phase,
        Self::Token,
        Self::Closed,
        Self::Substrate,
        Self::DeletionIntent,
        Self::Retry,
    ];

    /// Its name in traces and fault plans.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Phase => "update_phase",
            Self::Token => "record_token",
            Self::Closed => "record_closed",
            Self::Substrate => "record_substrate",
            Self::DeletionIntent => "record_deletion_intent",
            Self::Retry => "record_retry",
        }
    }

    /// Whether a change may be written this way onto a row in the stored phase. Asked after version and
    /// epoch were found to be right.
    ///
    /// # Errors
    ///
    /// - [`Error::IllegalTransition`] along an edge that the state machine does not have.
    /// - [`Error::InvalidInput`] when the change belongs to another kind of write.
    pub fn check(self, stored: Phase, change: &Change) -> Result<(), Error> {
        let to = change.resource().phase();
        if !stored.can_become(to) {
            return Err(Error::IllegalTransition { from: stored, to });
        }
        let asked_for = to == Phase::Deregistering && !stored.is_teardown();
        let retried = stored == Phase::Failed && to == Phase::Pending;
        let (fits, allowed) = match self {
            Self::Phase => (to != stored && !asked_for && !retried, "a decided change of phase"),
            Self::DeletionIntent => (asked_for, "a deletion request"),
            Self::Retry => (retried, "a retry of a failure"),
            Self::Token | Self::Closed | Self::Substrate => (to == stored, "one within a phase"),
        };
        if fits {
            return Ok(());
        }
        Err(Error::invalid("change", format!("leads from {stored} to {to}; use {allowed}")))
    }

    /// The audit line of a write onto a row in the stored phase.
    pub fn audit(self, stored: Phase, write: &Write<'_>) -> AuditEntry {
        let resource = write.change.resource();
        let action = match self {
            Self::Phase if resource.abandoned() => AuditAction::Abandoned,
            Self::Phase => AuditAction::PhaseChanged,
            Self::Token => AuditAction::TokenRecorded,
            Self::Closed => AuditAction::TokensClosedRecorded,
            Self::Substrate => AuditAction::SubstrateRecorded,
            Self::DeletionIntent => AuditAction::DeletionRequested,
            Self::Retry => AuditAction::RetryRequested,
        };
        let mut entry = AuditEntry::new(action, write.by.clone())
            .in_project(resource.project_id())
            .about(resource.id());
        entry.previous_phase = Some(stored);
        entry.new_phase = Some(resource.phase());
        entry.failed_step = resource.failure().map(broker_domain::Failure::step);
        entry.event_data = write.event_data.map(str::to_owned);
        entry
    }
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a write that lost its race changed nothing"]
pub enum Written {
    /// Committed.
    Committed,
    /// Somebody else changed the resource first, or it is gone. Nothing was written.
    Stale,
    /// The worker lost its lease. Nothing was written.
    LeaseLost,
}

/// What became of a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only one of the answers means that the new resource exists"]
pub enum Created {
    /// Stored.
    Stored,
    /// The request id was used before, with an equal declaration: this is the resource that it stands for.
    Replayed(Box<ProvisionedResource>),
    /// The request id was used before, with another declaration. Nothing was stored.
    Conflict,
}

/// What a request id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRequest {
    /// The resource.
    pub resource: ProvisionedResource,
    /// The digest of what was asked for.
    pub hash: RequestHash,
}

impl StoredRequest {
    /// A resource and the digest of what was asked for.
    pub const fn new(resource: ProvisionedResource, hash: RequestHash) -> Self {
        Self { resource, hash }
    }
}
