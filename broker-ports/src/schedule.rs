//! Persist: who works on what, and when.

mod brake;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{ClusterId, ProvisionedResourceId, Version};
use futures_core::Stream;
use time::OffsetDateTime;

pub use brake::{Allowance, Brake, BrakeRelease, Loss, Lost, Permit, PermitRequest};

use crate::context::Attribution;
use crate::error::PortError;
use crate::lease::{Lane, Lease, LeaseEpoch, WorkerId};
use crate::repository::PageSize;

/// Ids of resources that somebody should look at soon. A hint and nothing more: it may be late, doubled or
/// lost, and it may end.
pub type Wakeups = Pin<Box<dyn Stream<Item = ProvisionedResourceId> + Send>>;

/// Who works on what, and when.
///
/// The store's clock decides about due times and leases; replicas' clocks may differ. Many replicas call
/// this at once, without a leader.
///
/// # Errors
///
/// As for [`Repository`](crate::Repository).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Schedule: Send + Sync {
    /// Claims work: answers leases on resources that nobody holds, the asking worker included.
    ///
    /// **Guarantees**: a resource is held by one worker at a time. Every claim raises its epoch by one, so
    /// that writes of an earlier holder are refused from then on. A paused resource is claimed only by
    /// [`ClaimTarget::EvenPaused`], and one at rest never. A worker that names its cluster gets no resource that is
    /// bound to another one. With a target of one resource, due or not.
    ///
    /// With [`ClaimTarget::Due`], only what is due, and in the lane that was asked for. Fair between Projects:
    /// those with due work take turns within a lane, the one that was served longest ago first, so that one
    /// with 10,000 due resources does not hold up another with one, however few are claimed at a time. Within
    /// a Project, what has been due for longest comes first.
    ///
    /// **Caller**: counts the lease from before it asked, and stops acting before it ends.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` a claim may have happened: it ends by itself.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError>;

    /// Gives a lease back and says when the resource is due again.
    ///
    /// **Guarantees**: a success forgets failed attempts and the last error; a failure counts up and backs
    /// off exponentially with full jitter, bounded (see [`Backoff`]). If the row's version is not `seen` any
    /// more, whoever changed it wants it looked at: the due time is never moved later then, and a failure,
    /// which was of the past, is not counted. Nor is it moved later if somebody set the resource due or resumed
    /// it since the claim: the pass may have looked before that wish was made. Its failure counts. A lease that
    /// was given back, or that somebody else took, gives nothing back a second time.
    ///
    /// A back-off that the other side asked for is capped at the longest one.
    ///
    /// **Caller**: `seen` is the version after the pass's own writes. [`Version::UNSTORED`] if the row could not
    /// be read: then there is nothing to compare, and the failure counts.
    ///
    /// # Errors
    ///
    /// See the trait. A lease that is not given back ends by itself.
    async fn release(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Result<Released, PortError>;

    /// Sets a resource due, unless it is due sooner already: nobody's wish is put off, neither by another nor
    /// by the end of a pass that is under way. Answers whether there is one. Leaves failed attempts as they are.
    ///
    /// **Caller**: this leaves no audit line; whoever acts for a person records
    /// [`ReconcileRequested`](crate::AuditAction::ReconcileRequested) first.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn schedule(&self, id: ProvisionedResourceId, due: Due) -> Result<bool, PortError>;

    /// What the schedule knows of a resource.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn entry(&self, id: ProvisionedResourceId) -> Result<Option<ScheduleEntry>, PortError>;

    /// Pauses or resumes a resource, with an audit line if that changes anything. Answers whether there is
    /// such a resource. A pass that is under way goes on; resuming sets it due at once.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn set_paused(
        &self,
        id: ProvisionedResourceId,
        paused: bool,
        by: &Attribution,
    ) -> Result<bool, PortError>;

    /// Every brake that is set on a cluster: its own first, then those of Projects.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn brakes(&self, cluster: &ClusterId) -> Result<Vec<Brake>, PortError>;

    /// Sets a brake of a cluster or of a Project on it; every replica obeys. Leaves an audit line `brake_set`
    /// about no resource. Setting it again keeps the first one and leaves no line.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: &Brake,
        by: &Attribution,
    ) -> Result<(), PortError>;

    /// Releases a brake and accepts losses, in one transaction. Answers whether that brake was set.
    ///
    /// **Guarantees**: every accepted loss counts as permitted, whatever the budget says, and its resource is
    /// due at once, as if no pass had failed. Leaves an audit line `brake_released` if the brake was set.
    /// Losses are accepted even if it was not: another operator may have released it meanwhile.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn release_brake(&self, release: &BrakeRelease) -> Result<bool, PortError>;

    /// Hands out a permit for one loss of one resource.
    ///
    /// **Guarantees**: of all permits that were handed out on a cluster within [`Allowance::within`], by any
    /// number of replicas, there are never more than [`Allowance::permits`] of what was applied there. A loss
    /// that is permitted or accepted already is granted again and not counted again. Nothing is granted while a
    /// brake holds the resource, a loss that was permitted before included. A new permit leaves an audit line
    /// `permit_taken`. Checked in this order: row gone, epoch, version, brake, loss, budget.
    ///
    /// **Caller**: asks before the first effect of the pass, and does nothing unless it is granted.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` the permit may be on record; asking again finds it.
    async fn permit(&self, request: &PermitRequest) -> Result<Permit, PortError>;

    /// The losses on a cluster that operators accepted: no sweep counts them. A store may forget a loss once
    /// its resource was applied again.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn accepted_losses(&self, cluster: &ClusterId) -> Result<BTreeSet<Loss>, PortError>;

    /// Hints that a resource should be looked at: it was declared, its deletion was asked for, it was
    /// resumed, or it was set due at once.
    ///
    /// **Implementer**: sends one for each of these to everybody who listens, once it is committed. **Caller**:
    /// relies on none; what is due is due without it.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn wakeups(&self) -> Result<Wakeups, PortError>;
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// What it wants.
    pub target: ClaimTarget,
    /// For how long.
    pub lease_for: Duration,
    /// The cluster that it works on: resources that are bound to another one are left out. `None` claims resources
    /// of every cluster.
    pub cluster: Option<ClusterId>,
}

impl ClaimRequest {
    /// A worker's request for work, and for how long it wants to hold it.
    pub const fn new(worker: WorkerId, target: ClaimTarget, lease_for: Duration) -> Self {
        Self { worker, target, lease_for, cluster: None }
    }

    /// Only what is bound to this cluster, or to none.
    #[must_use]
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = Some(cluster);
        self
    }
}

/// What a worker wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimTarget {
    /// Whatever is due in a lane.
    Due {
        /// The lane.
        lane: Lane,
        /// How many at the most.
        limit: PageSize,
    },
    /// This one.
    One(ProvisionedResourceId),
    /// This one, paused or not: for what a person does by hand.
    EvenPaused(ProvisionedResourceId),
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassOutcome {
    /// Well. Look again after this time; `None` leaves it to the sweep.
    Succeeded {
        /// When to look again.
        due_in: Option<Duration>,
    },
    /// As [`Succeeded`](Self::Succeeded), and a direct read showed the composite resource standing armed. So a loss that an
    /// operator accepted before the claim is over, and the next one counts again.
    Stands {
        /// When to look again.
        due_in: Option<Duration>,
    },
    /// It failed. Try again after a back-off, or after the time that somebody asked for if that is longer.
    Failed {
        /// The reason, of a closed set.
        reason: String,
        /// What a person should read: scrubbed, one line.
        message: String,
        /// How long the other side asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// It ended early: something else changed first, or it has to wait. Try again soon, and less often each
    /// time ([`Backoff::SOON`] instead of [`Backoff::first`]).
    Ended {
        /// The reason, of a closed set.
        reason: String,
        /// What a person should read: one line.
        message: String,
    },
}

/// What became of a lease that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// Given back.
    Done,
    /// It was somebody else's already. Nothing changed.
    LeaseLost,
}

/// When a resource should be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After a while, by the store's clock.
    After(Duration),
}

/// What the schedule knows of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleEntry {
    /// When it is due by itself; `None` leaves it to the sweep.
    pub due_at: Option<OffsetDateTime>,
    /// Failed passes in a row.
    pub attempts: u32,
    /// How the last failed pass failed: reason and message.
    pub last_error: Option<(String, String)>,
    /// Somebody paused it.
    pub paused: bool,
    /// How often it was claimed.
    pub epoch: LeaseEpoch,
    /// Who holds its lease, and until when; it may be over.
    pub lease: Option<(WorkerId, OffsetDateTime)>,
    /// The store's clock when this was read.
    pub now: OffsetDateTime,
}

impl ScheduleEntry {
    /// The entry of a resource that is due and that nobody has worked on.
    pub const fn new(due_at: OffsetDateTime, now: OffsetDateTime) -> Self {
        Self {
            due_at: Some(due_at),
            attempts: 0,
            last_error: None,
            paused: false,
            epoch: LeaseEpoch::ZERO,
            lease: None,
            now,
        }
    }
}

/// How long a resource is left alone after a failed pass: exponential with full jitter, bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The longest wait after one failure.
    pub first: Duration,
    /// The longest wait after any number of failures.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_mins(5) }
    }
}

impl Backoff {
    /// The longest wait after the first pass that ended early: the world has moved, so the next pass follows
    /// soon, but lets the other side finish.
    pub const SOON: Duration = Duration::from_millis(200);

    /// The longest wait after one failure, and after any number of them.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The longest wait after this many failures in a row. The wait itself is drawn evenly from zero to this,
    /// so that what failed together does not come back together.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use broker_ports::Backoff;
    ///
    /// let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    /// let ceilings = [1, 2, 3, 6, 7, 1_000].map(|attempts| backoff.ceiling(attempts).as_secs());
    /// assert_eq!(ceilings, [1, 2, 4, 32, 60, 60]);
    /// ```
    pub fn ceiling(self, attempts: u32) -> Duration {
        let doubled = 2_u32.checked_pow(attempts.saturating_sub(1));
        doubled
            .and_then(|factor| self.first.checked_mul(factor))
            .map_or(self.longest, |wait| wait.min(self.longest))
    }
}
