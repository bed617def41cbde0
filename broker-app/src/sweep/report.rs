//! The result of a sweep, for probes, logs and callers.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{Phase, ProvisionedResourceId, Version};
use broker_ports::{Brake, CachedXr, CompactRow, ConfigPresence, SpecState};

use super::Work;
use crate::error::{Error, error_message};
use crate::observe::Gate;
use crate::sweep::orphans::Orphan;

/// The result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Rows that the sweep visited.
    pub looked_at: usize,
    /// Visited rows that need no pass.
    pub settled: usize,
    /// Visited rows that are paused, leased by another worker, or wait for the next attempt.
    pub waiting: usize,
    /// Visited rows that were handed over for a pass.
    pub handed_over: usize,
    /// This sweep visited every row and scanned for orphans.
    pub complete: bool,
    /// Resources by phase, without Deleted. Exact only if the sweep is complete.
    pub phases: BTreeMap<Phase, usize>,
    /// Expected composite resources that are absent.
    pub missing: usize,
    /// Ready resources whose composite resource another writer changed since it was applied.
    pub drifted: usize,
    /// Resources whose composite resource exists and whose ProviderConfig is absent.
    pub missing_configs: usize,
    /// The brakes that are set, the cluster's own first.
    pub brakes: Vec<Brake>,
    /// The sweep ran out of time after this resource; the next one continues there.
    pub deferred_after: Option<ProvisionedResourceId>,
    /// Resources that could not be read, or whose last pass failed.
    pub errors: BTreeMap<ProvisionedResourceId, ResourceError>,
    /// Objects with the broker's labels that no row accounts for, or only a Deleted one.
    pub orphans: Vec<Orphan>,
    /// Kinds that could not be listed; orphans of these kinds are unknown.
    pub unlisted_kinds: BTreeMap<String, ResourceError>,
    pub(crate) paused: BTreeSet<ProvisionedResourceId>,
    /// Resources behind a closed gate, each with the version of its row.
    pub(crate) gated: BTreeMap<ProvisionedResourceId, (Version, Gate)>,
    /// Resources whose composite resource reports a problem, each with the version of its row.
    pub(crate) with_problem: BTreeMap<ProvisionedResourceId, Version>,
    /// Resources that are not settled. Only these can still have an error from an earlier pass.
    pub(crate) unsettled: BTreeSet<ProvisionedResourceId>,
}

/// Why a resource could not be read, or its pass failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceError {
    /// The reason, from a closed set.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// Whether a dependency of the broker failed, and not the resource.
    pub infrastructure: bool,
}

impl ResourceError {
    pub(crate) fn panicked() -> Self {
        let message = "the pass panicked".to_owned();
        Self { reason: "panicked", message, infrastructure: false }
    }

    pub(crate) fn from_error(error: &Error) -> Self {
        Self {
            reason: error.reason(),
            message: error_message(error),
            infrastructure: error.is_infrastructure(),
        }
    }
}

impl SweepReport {
    /// Error counts by reason.
    pub fn by_reason(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for error in self.errors.values() {
            *counts.entry(error.reason).or_default() += 1;
        }
        counts
    }

    /// The first error of a dependency.
    pub(crate) fn infrastructure(&self) -> Option<&ResourceError> {
        let mut errors = self.errors.values().chain(self.unlisted_kinds.values());
        errors.find(|error| error.infrastructure)
    }

    pub(super) fn count_visited(&mut self, phase: Phase) {
        self.looked_at += 1;
        self.count_phase(phase);
    }

    /// Counts drift. A changed spec counts only for Ready: otherwise the next pass applies the spec again.
    pub(super) fn count_drift(&mut self, phase: Phase, cached: &CachedXr) {
        let CachedXr::Present { spec, config, .. } = cached else { return };
        self.drifted += usize::from(phase == Phase::Ready && *spec == SpecState::Drifted);
        self.missing_configs += usize::from(*config == ConfigPresence::Missing);
    }

    /// Records a problem that Crossplane reports, unless the resource is Ready: then nothing waits for it.
    pub(super) fn record_problem(&mut self, row: &CompactRow, cached: &CachedXr) {
        let fails = matches!(cached, CachedXr::Present { status, .. } if status.sync_failed);
        if fails && row.phase != Phase::Ready {
            self.with_problem.insert(row.id, row.version);
        }
    }

    pub(super) fn count_phase(&mut self, phase: Phase) {
        *self.phases.entry(phase).or_default() += 1;
    }

    pub(super) fn record_error(&mut self, id: ProvisionedResourceId, error: &Error) {
        self.errors.insert(id, ResourceError::from_error(error));
    }

    pub(super) fn record_unlisted(&mut self, kind: String, error: &Error) {
        self.unlisted_kinds.insert(kind, ResourceError::from_error(error));
    }

    pub(super) fn count_waiting(&mut self, id: ProvisionedResourceId) {
        self.waiting += 1;
        self.unsettled.insert(id);
    }

    pub(super) fn hand_over(&mut self, work: &[Work]) {
        self.handed_over = work.len();
        self.unsettled.extend(work.iter().map(|work| work.resource));
    }
}
