//! What a write carries, and what can become of it.

use broker_domain::{Change, ProvisionedResource};

use crate::admitted::RequestHash;
use crate::context::Attribution;
use crate::lease::LeaseEpoch;

/// One write of the aggregate.
#[derive(Debug, Clone, Copy)]
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
pub struct StoredRequest {
    /// The resource.
    pub resource: ProvisionedResource,
    /// The digest of what was asked for.
    pub hash: RequestHash,
}
