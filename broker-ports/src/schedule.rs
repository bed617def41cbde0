//! Persist: leases and due times, which coordinate the workers of all replicas.

mod brake;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{ClusterId, ProvisionedResourceId, Version};
use futures_core::Stream;
use time::OffsetDateTime;

pub use brake::{Allowance, Brake, BrakeRelease, Loss, LostObject, Permit, PermitRequest};

use crate::context::Attribution;
use crate::error::PortError;
use crate::lease::{Lane, Lease, LeaseEpoch, WorkerId};
use crate::repository::PageSize;

/// Ids of resources that need a pass soon. A hint: it may be late, duplicated or lost, and the stream may end.
pub type Wakeups = Pin<Box<dyn Stream<Item = ProvisionedResourceId> + Send>>;

/// Leases, due times, pauses, brakes and permits.
///
/// Only the store's clock counts due times and leases; the clocks of replicas may differ. Many replicas call this
/// concurrently, without a leader.
///
/// # Errors
///
/// As for [`Repository`](crate::Repository).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Schedule: Send + Sync {
    /// Claims leases on free resources. A worker cannot claim a resource that it already holds.
    ///
    /// **Guarantees**: one worker holds a resource at a time. Every claim raises its epoch by one, so that writes of an
    /// earlier holder fail from then on. Only [`ClaimTarget::EvenPaused`] claims a paused resource; a settled one is
    /// never claimed. A worker that names its cluster gets no resource of another cluster. A target of one resource
    /// ignores the due time.
    ///
    /// [`ClaimTarget::Due`] returns only due resources of its lane. Within a lane, Projects with due work take
    /// turns, least recently served first. So a Project with 10,000 due resources does not delay a Project with
    /// one, even with small claims. Within a Project, the resource that has been due longest comes first.
    ///
    /// **Caller**: counts the lease from before it sent the claim, and stops acting before the lease ends.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` the claim may exist; it expires.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError>;

    /// Releases a lease and sets when the resource is due again.
    ///
    /// **Guarantees**: a success clears failed attempts and the last error. A failure counts an attempt and backs off as
    /// the outcome's [`Backoff`] says: exponentially, with full jitter and a bound. A lease releases only once, and
    /// only until another worker claims the resource.
    ///
    /// If the row's version is no longer `seen`, another writer changed the row: the due time is never moved later, and
    /// a failure is not counted, because it concerns the old row. If the resource was scheduled or resumed after the
    /// claim, the due time is not moved later either, because the pass may have read the old state. A failure then
    /// counts.
    ///
    /// A requested back-off is capped at [`Backoff::longest`].
    ///
    /// **Caller**: passes the version after its own writes as `seen`, or [`Version::UNSTORED`] if the row was
    /// unreadable. A failure then counts without a comparison.
    ///
    /// # Errors
    ///
    /// See the trait. A lease that is not released expires.
    async fn release(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Result<Released, PortError>;

    /// Makes a resource due, unless it is due earlier. Neither a later call nor the end of a running pass postpones it.
    /// Returns whether the resource exists. Failed attempts do not change. Idempotent.
    ///
    /// **Caller**: this writes no audit line. A caller that acts for a person first records
    /// [`ReconcileRequested`](crate::AuditAction::ReconcileRequested).
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn schedule(&self, id: ProvisionedResourceId, due: Due) -> Result<bool, PortError>;

    /// Reads the schedule of a resource.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn entry(&self, id: ProvisionedResourceId) -> Result<Option<ScheduleEntry>, PortError>;

    /// Pauses or resumes a resource, with an audit line if that is a change. Returns whether the resource exists. A
    /// running pass continues; resuming makes the resource due at once. Idempotent.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn set_paused(
        &self,
        id: ProvisionedResourceId,
        paused: bool,
        attribution: &Attribution,
    ) -> Result<bool, PortError>;

    /// Reads all brakes on a cluster: its own first, then those of Projects.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn brakes(&self, cluster: &ClusterId) -> Result<Vec<Brake>, PortError>;

    /// Sets a brake on a cluster or on a Project there. Every replica obeys it. Writes an audit line `brake_set`
    /// without a resource. Idempotent: a second call keeps the first brake and writes no line.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: &Brake,
        attribution: &Attribution,
    ) -> Result<(), PortError>;

    /// Releases a brake and accepts losses, in one transaction. Returns whether the brake was set.
    ///
    /// **Guarantees**: an accepted loss counts as permitted whatever the budget, and its resource is due at once with
    /// zero attempts. Writes an audit line `brake_released` if the brake was set. Accepts the losses in any case,
    /// because another operator may have released the brake first.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn release_brake(&self, release: &BrakeRelease) -> Result<bool, PortError>;

    /// Requests a permit for one loss of one resource.
    ///
    /// **Guarantees**: all replicas together get at most [`Allowance::permits`] permits per cluster within
    /// [`Allowance::within`], of the resources that were applied there. A loss that is already permitted or accepted is
    /// granted again without a charge. A brake that holds the resource denies every permit, including a granted one. A
    /// new permit writes an audit line `permit_taken`. The checks run in this order: missing row, epoch, version,
    /// brake, loss, budget.
    ///
    /// **Caller**: requests it before the first effect of the pass, and acts only if it is granted.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` the permit may be on record; a retry finds it.
    async fn permit(&self, request: &PermitRequest) -> Result<Permit, PortError>;

    /// Reads the losses on a cluster that operators accepted. Sweeps do not count them. A store may drop a loss once
    /// its resource was applied again.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn accepted_losses(&self, cluster: &ClusterId) -> Result<BTreeSet<Loss>, PortError>;

    /// Streams a hint when a resource was declared, deleted, resumed or made due at once.
    ///
    /// **Implementer**: sends a hint to every subscriber after the commit. **Caller**: treats it as an optimisation;
    /// due resources are claimed without it.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn wakeups(&self) -> Result<Wakeups, PortError>;
}

/// A worker's request for leases.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// The worker.
    pub worker: WorkerId,
    /// The resources.
    pub target: ClaimTarget,
    /// The lease's duration.
    pub lease_for: Duration,
    /// The worker's cluster: resources of other clusters are excluded. `None` claims resources of every cluster.
    pub cluster: Option<ClusterId>,
}

impl ClaimRequest {
    /// A request for leases on resources of every cluster.
    pub const fn new(worker: WorkerId, target: ClaimTarget, lease_for: Duration) -> Self {
        Self { worker, target, lease_for, cluster: None }
    }

    /// Only resources of this cluster, or of none.
    #[must_use]
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = Some(cluster);
        self
    }
}

/// The resources that a worker claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimTarget {
    /// Due resources of a lane.
    Due {
        /// The lane.
        lane: Lane,
        /// The maximum number of resources.
        limit: PageSize,
    },
    /// One resource, due or not.
    One(ProvisionedResourceId),
    /// One resource, paused or not: for manual operations.
    EvenPaused(ProvisionedResourceId),
}

/// What a replica reports to the schedule when it releases the lease of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassOutcome {
    /// It succeeded.
    Succeeded {
        /// The delay until the next pass; `None` leaves the resource to the sweep.
        due_in: Option<Duration>,
    },
    /// It succeeded, and a direct read found the composite resource armed. This ends the acceptance of an earlier loss;
    /// the next loss counts again.
    SucceededArmed {
        /// The delay until the next pass; `None` leaves the resource to the sweep.
        due_in: Option<Duration>,
    },
    /// It failed. The next pass follows after a back-off, or after `retry_after` if that is longer.
    Failed {
        /// The reason, of a closed set.
        reason: String,
        /// A message for people: scrubbed, one line.
        message: String,
        /// The back-off that the server requested.
        retry_after: Option<Duration>,
        /// The bounds of the wait.
        backoff: Backoff,
    },
    /// It ended early: the resource changed concurrently, or the pass has to wait. The next pass follows after a
    /// back-off.
    Ended {
        /// The reason, of a closed set.
        reason: String,
        /// A message for people: one line.
        message: String,
        /// The bounds of the wait.
        backoff: Backoff,
    },
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The lease was released.
    Done,
    /// Another worker holds the lease, or it was released before. Nothing changed.
    LeaseLost,
}

/// When a resource is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After a delay, by the store's clock.
    After(Duration),
}

/// The schedule of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleEntry {
    /// When it is due; `None` leaves it to the sweep.
    pub due_at: Option<OffsetDateTime>,
    /// Failed passes in a row.
    pub attempts: u32,
    /// Reason and message of the last failed pass.
    pub last_error: Option<(String, String)>,
    /// Whether it is paused.
    pub paused: bool,
    /// The number of claims.
    pub epoch: LeaseEpoch,
    /// The last lease's holder and end; the end may be in the past.
    pub lease: Option<(WorkerId, OffsetDateTime)>,
    /// The store's clock at the read.
    pub now: OffsetDateTime,
}

impl ScheduleEntry {
    /// The entry of a due resource that was never claimed.
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

/// The wait after a failed pass: exponential with full jitter and a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The longest wait after one failure.
    pub first: Duration,
    /// The bound for any number of failures.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_mins(5) }
    }
}

impl Backoff {
    /// A back-off from the first bound to the longest.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The longest wait after this many failures in a row. The wait is drawn uniformly from zero to this, so that
    /// resources that failed together do not retry together.
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
