//! Persist: leases, and the epoch that exposes a worker that lost its lease.

use std::fmt;

use broker_domain::{Error, ProvisionedResourceId};
use time::OffsetDateTime;
use uuid::Uuid;

/// The id of a replica, new at every start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(String);

/// The number of claims on a resource. A write with an older epoch than the stored one comes from a worker that lost
/// its lease, and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseEpoch(u64);

/// The queue of a resource. Workers serve both lanes concurrently, so that a backlog of creations cannot starve a
/// deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Lane {
    /// Converging resources, and failed ones that must be rolled back.
    Converge,
    /// Resources in teardown.
    Teardown,
}

/// The exclusive right to act on one resource until a deadline.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Lease {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// The number of this claim; guarded writes carry it.
    pub epoch: LeaseEpoch,
    /// The holder.
    pub worker: WorkerId,
    /// The deadline, by the store's clock. A worker counts the lease from before it sent its claim.
    pub until: OffsetDateTime,
    /// Failed passes in a row.
    pub attempts: u32,
    /// Whether it is a takeover: the previous worker did not release the lease.
    pub takeover: bool,
}

impl Lease {
    /// A lease on a free resource without failed passes.
    pub const fn new(
        resource: ProvisionedResourceId,
        epoch: LeaseEpoch,
        worker: WorkerId,
        until: OffsetDateTime,
    ) -> Self {
        Self { resource, epoch, worker, until, attempts: 0, takeover: false }
    }

    /// Sets the failed passes in a row.
    #[must_use]
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Marks it as a takeover.
    #[must_use]
    pub const fn taken_over(mut self) -> Self {
        self.takeover = true;
        self
    }
}

impl WorkerId {
    /// Takes an id.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is empty, longer than 100 bytes, or holds `@` or anything that is not visible
    /// ASCII. Correlation ids, which are at most 128 bytes, include it.
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

    /// A replica's id from a unique UUID.
    pub fn of_replica(unique: Uuid) -> Self {
        Self(format!("replica-{unique}"))
    }

    /// The id.
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

    /// Wraps a stored epoch.
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
