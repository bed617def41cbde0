//! What a sweep found, for probes, logs and people.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{Brake, CachedXr, ConfigPresence, SpecState};

use super::Work;
use crate::error::{Error, in_words};
use crate::sweep::orphans::Orphan;

/// What a sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Rows that were looked at.
    pub looked_at: usize,
    /// Of these: nothing to do.
    pub settled: usize,
    /// Of these: something to do, but not now, or not by us.
    pub waiting: usize,
    /// Of these: handed over for a pass.
    pub handed_over: usize,
    /// Every row was looked at by this one sweep, and then whatever else is ours.
    pub complete: bool,
    /// How many resources are in each phase, those that are Deleted apart. All of them if the sweep is complete.
    pub phases: BTreeMap<Phase, usize>,
    /// Composite resources that should stand and were not seen.
    pub missing: usize,
    /// Of the resources that are Ready: their composite resource was changed by another writer since it was applied.
    pub drifted: usize,
    /// Of the resources whose composite resource stands: their ProviderConfig was not seen.
    pub missing_configs: usize,
    /// The brakes that are set, the cluster's own first.
    pub brakes: Vec<Brake>,
    /// Time was up after this resource; those behind it are looked at by the next sweep.
    pub deferred_after: Option<ProvisionedResourceId>,
    /// What could not be looked at, or failed in its last pass.
    pub errors: BTreeMap<ProvisionedResourceId, ResourceError>,
    /// Objects with our labels that no living row wants.
    pub orphans: Vec<Orphan>,
    /// Kinds whose objects could not be listed, so that orphans among them are not known.
    pub unlisted_kinds: BTreeMap<String, ResourceError>,
    /// What was not found settled: only that can still be in trouble from an earlier pass.
    pub(crate) unsettled: BTreeSet<ProvisionedResourceId>,
}

/// Why one resource could not be looked at, or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceError {
    /// The reason, of a closed set.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// The broker's own footing is at fault, and not the resource.
    pub infrastructure: bool,
}

impl ResourceError {
    /// A pass that broke down before it could say why.
    pub(crate) fn panicked() -> Self {
        let message = "the pass broke down".to_owned();
        Self { reason: "panicked", message, infrastructure: false }
    }

    pub(crate) fn of(error: &Error) -> Self {
        Self {
            reason: error.reason(),
            message: in_words(error),
            infrastructure: error.is_infrastructure(),
        }
    }
}

impl SweepReport {
    /// Troubles by reason.
    pub fn by_reason(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for trouble in self.errors.values() {
            *counts.entry(trouble.reason).or_default() += 1;
        }
        counts
    }

    /// The first trouble that is the broker's own.
    pub(crate) fn infrastructure(&self) -> Option<&ResourceError> {
        let mut errors = self.errors.values().chain(self.unlisted_kinds.values());
        errors.find(|trouble| trouble.infrastructure)
    }

    pub(super) fn looked_at(&mut self, phase: Phase) {
        self.looked_at += 1;
        self.at_rest(phase);
    }

    /// Counts what differs from what the broker applied. While a resource converges, the broker applies it again, so that
    /// a changed spec is no drift.
    pub(super) fn drift(&mut self, phase: Phase, cached: &CachedXr) {
        let CachedXr::Present { spec, config, .. } = cached else { return };
        self.drifted += usize::from(phase == Phase::Ready && *spec == SpecState::Drifted);
        self.missing_configs += usize::from(*config == ConfigPresence::Missing);
    }

    /// A resource that no sweep has to look at.
    pub(super) fn at_rest(&mut self, phase: Phase) {
        *self.phases.entry(phase).or_default() += 1;
    }

    pub(super) fn trouble(&mut self, id: ProvisionedResourceId, error: &Error) {
        self.errors.insert(id, ResourceError::of(error));
    }

    pub(super) fn unlisted(&mut self, kind: String, error: &Error) {
        self.unlisted_kinds.insert(kind, ResourceError::of(error));
    }

    pub(super) fn waits(&mut self, id: ProvisionedResourceId) {
        self.waiting += 1;
        self.unsettled.insert(id);
    }

    pub(super) fn hand_over(&mut self, work: &[Work]) {
        self.handed_over = work.len();
        self.unsettled.extend(work.iter().map(|work| work.resource));
    }
}
