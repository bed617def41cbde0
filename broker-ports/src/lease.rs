//! Who works on a resource, and how a worker that lost its claim is recognised.

use std::fmt;

use broker_domain::{Error, ProvisionedResourceId};
use time::OffsetDateTime;
use uuid::Uuid;

/// A replica's name for itself, new at every start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(String);

/// How often a resource has been claimed. A write that carries an older epoch than the stored one comes
/// from a worker that lost its lease, and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseEpoch(u64);

/// Which queue a resource stands in. They are worked on side by side, so that a backlog of creations
/// cannot starve a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// On the way up, and failed resources that have to be rolled back.
    Converge,
    /// On the way down.
    Teardown,
}

/// The right to act on one resource, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Lease {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// The number of this claim, which guarded writes carry.
    pub epoch: LeaseEpoch,
    /// Who holds it.
    pub worker: WorkerId,
    /// When it ends, by the store's clock. A worker counts its own time from before it asked.
    pub until: OffsetDateTime,
    /// Failed passes in a row.
    pub attempts: u32,
    /// It was taken over from a worker that did not give it back.
    pub takeover: bool,
}

impl Lease {
    /// A claim on a resource that nobody held and of which no pass has failed.
    pub const fn new(
        resource: ProvisionedResourceId,
        epoch: LeaseEpoch,
        worker: WorkerId,
        until: OffsetDateTime,
    ) -> Self {
        Self { resource, epoch, worker, until, attempts: 0, takeover: false }
    }

    /// After so many failed passes in a row.
    #[must_use]
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// From a worker that did not give it back.
    #[must_use]
    pub const fn taken_over(mut self) -> Self {
        self.takeover = true;
        self
    }
}

impl WorkerId {
    /// Takes a name.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is empty, longer than 100 bytes, or holds `@` or anything that is not visible
    /// ASCII: the name is part of correlation ids, which are at most 128 bytes.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let allowed = |c: char| c.is_ascii_graphic() && c != '@';
        if name.is_empty() || name.len() > 100 || !name.chars().all(allowed) {
            return Err(Error::invalid(
                "worker",
                "use 1 to 100 visible ASCII characters without @",
            ));
        }
        Ok(Self(name))
    }

    /// The name of a replica by a UUID that no other replica has.
    pub fn of_replica(unique: Uuid) -> Self {
        Self(format!("replica-{unique}"))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LeaseEpoch {
    /// Before the first claim.
    pub const ZERO: Self = Self(0);

    /// Takes the epoch that a store kept.
    pub const fn new(epoch: u64) -> Self {
        Self(epoch)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch of the next claim.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for LeaseEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
