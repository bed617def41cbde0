//! Persist: the budget for automatic destruction, its permits, and the brake that stops them.
//!
//! Re-creating a lost composite resource, or failing one that was Ready, can destroy a running machine. Both need a
//! [`Permit`]. The store limits the permits of all replicas together.

use std::fmt;
use std::time::Duration;

use broker_domain::{
    BootstrapTokenId, ClusterId, ProjectId, ProvisionedResourceId, Version, XrUid,
};
use time::OffsetDateTime;

use crate::context::Attribution;
use crate::lease::Lease;

/// Stops automatic destruction on a cluster or in one Project.
///
/// While it is set, a pass of a resource that it [holds](Self::holds) applies no object, issues no token and deregisters
/// no Node, except in a teardown. The pass neither rolls the resource back nor stores it as Failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Brake {
    /// The Project; `None` for the whole cluster.
    pub project: Option<ProjectId>,
    /// How many composite resources were absent; zero if an operator set the brake.
    pub absent: u64,
    /// How many composite resources were expected to exist; zero if an operator set the brake.
    pub expected: u64,
    /// When the brake was set, by the clock of the replica that set it.
    pub since: OffsetDateTime,
}

impl Brake {
    /// A cluster's brake, with the counts of absent and expected composite resources.
    pub const fn new(absent: u64, expected: u64, since: OffsetDateTime) -> Self {
        Self { project: None, absent, expected, since }
    }

    /// Limits the brake to one Project.
    #[must_use]
    pub const fn of_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// Whether the brake holds a resource of this Project.
    ///
    /// A Project's brake does not hold a resource that was never applied, because that resource has nothing to lose.
    /// The cluster's brake does, because no observation of that cluster is reliable.
    pub fn holds(&self, project: ProjectId, was_applied: bool) -> bool {
        match self.project {
            None => true,
            Some(braked) => braked == project && was_applied,
        }
    }
}

/// The lost object, which identifies the loss. A permit is for one loss: retries and other replicas reuse it within its
/// window, and the next loss of the same resource needs another permit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum LostObject {
    /// The composite resource of this uid: it is gone, or it failed terminally.
    Xr(XrUid),
    /// The Node that consumed this token, of a composite resource that the broker never observed.
    Node(BootstrapTokenId),
}

impl fmt::Display for LostObject {
    /// The stored form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xr(uid) => write!(f, "xr:{uid}"),
            Self::Node(token) => write!(f, "node:{token}"),
        }
    }
}

/// One loss of one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "its users act on every field")]
pub struct Loss {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// The lost object.
    pub lost: LostObject,
}

/// The budget of permits of a cluster: a share of its fleet, with bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "its users act on every field")]
pub struct Allowance {
    /// The minimum number of permits.
    pub min_permits: u64,
    /// The share of the resources applied on the cluster, in percent.
    pub percent: u64,
    /// The maximum number of permits.
    pub max_permits: u64,
    /// The sliding window.
    pub within: Duration,
}

impl Default for Allowance {
    /// 1 % of the fleet, at least 5 and at most 20, in ten minutes.
    fn default() -> Self {
        Self { min_permits: 5, percent: 1, max_permits: 20, within: Duration::from_mins(10) }
    }
}

impl Allowance {
    /// The number of permits for a fleet of this size.
    ///
    /// ```
    /// let allowance = broker_ports::Allowance::default();
    /// let permits = [0, 8, 600, 1_400, 100_000].map(|fleet| allowance.permits(fleet));
    /// assert_eq!(permits, [5, 5, 6, 14, 20]);
    /// ```
    pub const fn permits(self, fleet: u64) -> u64 {
        let share = fleet.saturating_mul(self.percent) / 100;
        let at_least = if share < self.min_permits { self.min_permits } else { share };
        if at_least > self.max_permits { self.max_permits } else { at_least }
    }

    /// The fleet size from which [`max_permits`](Self::max_permits) applies; zero without a share. A store need not
    /// count further.
    pub const fn fleet_count_limit(self) -> u64 {
        if self.percent == 0 {
            0
        } else {
            self.max_permits.saturating_mul(100).div_ceil(self.percent)
        }
    }
}

/// A worker's request for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitRequest {
    /// The worker's lease on the resource.
    pub lease: Lease,
    /// The version of the row from which the worker decided.
    pub seen: Version,
    /// The cluster whose budget is charged.
    pub cluster: ClusterId,
    /// The lost object.
    pub lost: LostObject,
    /// The budget.
    pub allowance: Allowance,
    /// The actor that the audit records.
    pub by: Attribution,
}

impl PermitRequest {
    /// A request under a lease, for a row at a version.
    pub const fn new(
        lease: Lease,
        seen: Version,
        cluster: ClusterId,
        lost: LostObject,
        allowance: Allowance,
        by: Attribution,
    ) -> Self {
        Self { lease, seen, cluster, lost, allowance, by }
    }
}

/// The result of a permit request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "without a permit nothing may be done"]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Permit {
    /// The worker may proceed. The permit is on record and covers retries within its window.
    Granted,
    /// A brake holds the resource.
    Braked,
    /// The budget is spent. A permit becomes free when the oldest one leaves the window.
    OverBudget,
    /// The row changed or is gone.
    Stale,
    /// The worker lost its lease.
    LeaseLost,
}

/// The release of a brake.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrakeRelease {
    /// The cluster.
    pub cluster: ClusterId,
    /// The Project whose brake is released; `None` for the cluster's own.
    pub project: Option<ProjectId>,
    /// The accepted losses: their resources become due and need no permit.
    pub accepted: Vec<Loss>,
    /// The operator.
    pub by: Attribution,
}

impl BrakeRelease {
    /// A release by an operator who accepts these losses.
    pub const fn new(
        cluster: ClusterId,
        project: Option<ProjectId>,
        accepted: Vec<Loss>,
        by: Attribution,
    ) -> Self {
        Self { cluster, project, accepted, by }
    }
}
