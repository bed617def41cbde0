//! Persist: writes of the aggregate and their results.

use broker_domain::{Change, Error, Phase, ProvisionedResource};

use crate::admitted::RequestHash;
use crate::audit::{AuditAction, AuditEntry};
use crate::context::Attribution;
use crate::lease::LeaseEpoch;

/// One write of the aggregate.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Write<'a> {
    /// The change; it names the version that it started from.
    pub change: &'a Change,
    /// The lease epoch of a worker; `None` for a caller's request.
    pub epoch: Option<LeaseEpoch>,
    /// The actor that the audit records.
    pub by: &'a Attribution,
    /// Text that a person wrote, for the audit only.
    pub event_data: Option<&'a str>,
}

impl<'a> Write<'a> {
    /// A write by the worker that holds the resource's lease.
    pub const fn by_worker(change: &'a Change, epoch: LeaseEpoch, by: &'a Attribution) -> Self {
        Self { change, epoch: Some(epoch), by, event_data: None }
    }

    /// A write that a caller requested.
    pub const fn by_caller(change: &'a Change, by: &'a Attribution) -> Self {
        Self { change, epoch: None, by, event_data: None }
    }

    /// Sets the text that a person wrote.
    #[must_use]
    pub const fn with_event_data(mut self, text: &'a str) -> Self {
        self.event_data = Some(text);
        self
    }
}

/// The kinds of write: each defines what it may change and its audit action.
///
/// Defined here, so that all adapters enforce the same rules and write the same audit lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum WriteKind {
    /// A phase change.
    Phase,
    /// The id of an issued token, before the token is used.
    ///
    /// **Caller**: uses the token only after the commit. After `Unknown` it ends the pass; the next pass reads the
    /// outcome.
    Token,
    /// The issuer's confirmation that all tokens are closed.
    ///
    /// **Caller**: writes it after [`TokenIssuer::close`](crate::TokenIssuer::close) succeeded, and before any
    /// observation on which a deletion is decided.
    Closed,
    /// The objects that exist on the cluster.
    ///
    /// **Caller**: writes it before it acts on the observation, in any phase. It adds only objects that it saw, and
    /// removes only objects that a direct read found gone.
    Substrate,
    /// An accepted deletion request.
    ///
    /// A caller's request carries no epoch, so it commits although a worker holds the lease. That worker's next write
    /// is then stale. **Implementer**: makes the resource due at once and clears its attempts.
    DeletionIntent,
    /// A retry of a failed resource. A caller's request without an epoch, like a deletion request. **Implementer**:
    /// makes the resource due at once.
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

    /// Whether this kind may write the change onto a row in the stored phase. The adapter checks version and epoch
    /// first.
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
        let is_deletion = to == Phase::Deregistering && !stored.is_teardown();
        let is_retry = stored == Phase::Failed && to == Phase::Pending;
        let (fits, allowed) = match self {
            Self::Phase => (to != stored && !is_deletion && !is_retry, "a decided change of phase"),
            Self::DeletionIntent => (is_deletion, "a deletion request"),
            Self::Retry => (is_retry, "a retry of a failure"),
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
            .for_resource(resource.id());
        entry.previous_phase = Some(stored);
        entry.new_phase = Some(resource.phase());
        entry.failed_step = resource.failure().map(broker_domain::Failure::step);
        entry.event_data = write.event_data.map(str::to_owned);
        entry
    }
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a write that lost its race changed nothing"]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Written {
    /// The write was committed.
    Committed,
    /// The resource changed since it was read, or is gone. Nothing was written.
    Stale,
    /// The worker lost its lease. Nothing was written.
    LeaseLost,
}

/// The result of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only `Stored` means that the new resource exists"]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Created {
    /// The resource was stored.
    Stored,
    /// The request id was used with an equal declaration. This is its resource.
    Replayed(Box<ProvisionedResource>),
    /// The request id was used with another declaration. Nothing was stored.
    Conflict,
}

/// The resource of a request id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRequest {
    /// The resource.
    pub resource: ProvisionedResource,
    /// The digest of its declaration.
    pub hash: RequestHash,
}

impl StoredRequest {
    /// A resource and the digest of its declaration.
    pub const fn new(resource: ProvisionedResource, hash: RequestHash) -> Self {
        Self { resource, hash }
    }
}
