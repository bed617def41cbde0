//! The budget for automatic destruction: permits, and the brake that ends them.
//!
//! Re-creating a composite resource that was lost, or giving up one that was Ready, can destroy a running
//! machine. Both need a [`Permit`], and the store hands out only so many in a while, to all replicas together.

use std::fmt;
use std::time::Duration;

use broker_domain::{
    BootstrapTokenId, ClusterId, ProjectId, ProvisionedResourceId, Version, XrUid,
};
use time::OffsetDateTime;

use crate::context::Attribution;
use crate::lease::Lease;

/// Why nothing is re-created, issued, deregistered, rolled back or failed on a cluster, or in one Project on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Brake {
    /// The Project that it holds; `None` when it holds the whole cluster.
    pub project: Option<ProjectId>,
    /// How many composite resources were absent. Zero when an operator set the brake.
    pub absent: u64,
    /// Of how many that should stand.
    pub expected: u64,
    /// When that was seen, by the clock of the replica that saw it.
    pub since: OffsetDateTime,
}

impl Brake {
    /// A cluster's brake: so many were absent, of so many that should stand.
    pub const fn new(absent: u64, expected: u64, since: OffsetDateTime) -> Self {
        Self { project: None, absent, expected, since }
    }

    /// The same for one Project on the cluster.
    #[must_use]
    pub const fn of_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// Whether a resource of this Project is held. A resource that was never applied has nothing to lose: it
    /// proceeds under a Project's brake, and waits under the cluster's, where nothing is certain.
    pub fn holds(&self, project: ProjectId, was_applied: bool) -> bool {
        match self.project {
            None => true,
            Some(held) => held == project && was_applied,
        }
    }
}

/// What was lost. A permit belongs to one loss: retries and other replicas reuse it, and the next loss of the
/// same resource needs another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lost {
    /// The composite resource of this uid: it is gone, or it failed for good.
    Xr(XrUid),
    /// The Node that consumed this token, of a composite resource that the broker never saw.
    Node(BootstrapTokenId),
}

impl fmt::Display for Lost {
    /// The spelling in rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xr(uid) => write!(f, "xr:{uid}"),
            Self::Node(token) => write!(f, "node:{token}"),
        }
    }
}

/// One loss of one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loss {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// What it lost.
    pub lost: Lost,
}

/// How many permits a cluster has in a while: a share of its fleet, within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// At least so many.
    pub least: u64,
    /// Otherwise this share of what was applied on the cluster, in percent.
    pub percent: u64,
    /// At most so many.
    pub most: u64,
    /// In this time.
    pub within: Duration,
}

impl Default for Allowance {
    /// 1 % of the fleet, at least 5 and at most 20, in ten minutes.
    fn default() -> Self {
        Self { least: 5, percent: 1, most: 20, within: Duration::from_mins(10) }
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
        let floored = if share < self.least { self.least } else { share };
        if floored > self.most { self.most } else { floored }
    }

    /// The largest fleet whose size makes a difference; a store need not count further.
    pub const fn fleet_that_counts(self) -> u64 {
        if self.percent == 0 { 0 } else { self.most.saturating_mul(100).div_ceil(self.percent) }
    }
}

/// A worker's request for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitRequest {
    /// The worker's lease on the resource.
    pub lease: Lease,
    /// The version of the row that the worker decided on.
    pub seen: Version,
    /// The cluster whose budget is charged.
    pub cluster: ClusterId,
    /// What was lost.
    pub lost: Lost,
    /// The budget.
    pub allowance: Allowance,
    /// To whom the audit attributes the permit.
    pub by: Attribution,
}

impl PermitRequest {
    /// A worker asks under its lease, about the row at a version.
    pub const fn new(
        lease: Lease,
        seen: Version,
        cluster: ClusterId,
        lost: Lost,
        allowance: Allowance,
        by: Attribution,
    ) -> Self {
        Self { lease, seen, cluster, lost, allowance, by }
    }
}

/// The store's answer to a request for a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "without a permit nothing may be done"]
pub enum Permit {
    /// The worker may go on. The permit is on record, and stays for retries.
    Granted,
    /// A brake holds the resource.
    Braked,
    /// The budget is spent; older permits leave it as time goes by.
    OverBudget,
    /// The row has changed, or is gone.
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
    /// The losses that the operator accepts: their resources become due and need no permit.
    pub accepted: Vec<Loss>,
    /// Who released it.
    pub by: Attribution,
}

impl BrakeRelease {
    /// An operator releases a brake and accepts these losses.
    pub const fn new(
        cluster: ClusterId,
        project: Option<ProjectId>,
        accepted: Vec<Loss>,
        by: Attribution,
    ) -> Self {
        Self { cluster, project, accepted, by }
    }
}
