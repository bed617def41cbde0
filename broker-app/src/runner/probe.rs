//! The readiness probe `provisioning-broker-reconcile`: is this replica on its feet?

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker_domain::{ProvisionedResource, ProvisionedResourceId};
use tokio::time::Instant;

use crate::emit::RelayReport;
use crate::error::Error;
use crate::reconcile::PassResult;
use crate::sweep::{ResourceError, SweepReport, Work};

/// A probe that fails has not seen a sweep finish within this many intervals.
const MOST_INTERVALS: u32 = 3;

/// Tells whether the last sweep found store and cluster in order, and whether it was not too long ago.
#[derive(Clone)]
pub struct Probe {
    state: Arc<Mutex<State>>,
    interval: Duration,
}

struct State {
    /// When a sweep last finished, well or not. None has, at first: nobody knows then what is out there.
    finished: Option<Instant>,
    /// Why the last sweep failed as a whole.
    failure: Option<ResourceError>,
    /// What the last sweep that went through found.
    report: SweepReport,
    /// Resources whose last pass here failed.
    failed: BTreeMap<ProvisionedResourceId, ResourceError>,
    /// Why events are not delivered.
    relay: Option<ResourceError>,
    /// Why due work cannot be claimed.
    claims: Option<ResourceError>,
}

/// Why a replica is not ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}", name = Probe::NAME)]
pub struct ProbeFailure {
    reason: &'static str,
    message: String,
}

impl ProbeFailure {
    /// A stable code. Unlike the message it quotes no dependency, so it can be served to strangers.
    pub const fn reason(&self) -> &'static str {
        self.reason
    }
}

impl Probe {
    /// The probe's stable name.
    pub const NAME: &str = "provisioning-broker-reconcile";

    pub(super) fn new(interval: Duration) -> Self {
        let state = State {
            finished: None,
            failure: None,
            report: SweepReport::default(),
            failed: BTreeMap::new(),
            relay: None,
            claims: None,
        };
        Self { state: Arc::new(Mutex::new(state)), interval }
    }

    /// Whether this replica is ready.
    ///
    /// # Errors
    ///
    /// [`ProbeFailure`] that says why not.
    pub fn check(&self) -> Result<(), ProbeFailure> {
        let failure = self.state().objection(self.interval);
        failure.map_or(Ok(()), |(reason, message)| Err(ProbeFailure { reason, message }))
    }

    /// What the last sweep that went through found, with the resources whose last pass on this replica failed
    /// among the errors.
    pub fn report(&self) -> SweepReport {
        let state = self.state();
        let mut report = state.report.clone();
        for (id, trouble) in &state.failed {
            report.errors.entry(*id).or_insert_with(|| trouble.clone());
        }
        report
    }

    /// A sweep went through lately: what the probe knows is of now.
    pub(crate) fn is_current(&self) -> bool {
        let finished = self.state().finished;
        finished.is_some_and(|finished| finished.elapsed() <= self.interval * MOST_INTERVALS)
    }

    /// The reason of a resource's trouble, of its last pass here or of the last sweep.
    pub(crate) fn trouble_of(&self, id: ProvisionedResourceId) -> Option<&'static str> {
        let state = self.state();
        // While a sweep fails as a whole, nothing is known of any resource but that.
        let trouble = state.failed.get(&id).or_else(|| state.report.errors.get(&id));
        trouble.or(state.failure.as_ref()).map(|trouble| trouble.reason)
    }

    /// Whether a brake holds what was lost of a resource.
    pub(crate) fn is_braked(&self, resource: &ProvisionedResource) -> bool {
        let was_applied = resource.substrate().applied().is_some();
        let state = self.state();
        state.report.brakes.iter().any(|it| it.holds(resource.project_id(), was_applied))
    }

    /// Why events are not delivered, if the last attempt failed.
    pub fn relay_error(&self) -> Option<ResourceError> {
        self.state().relay.clone()
    }

    pub(super) fn swept(&self, swept: &Result<(Vec<Work>, SweepReport), Error>) {
        let mut state = self.state();
        state.finished = Some(Instant::now());
        match swept {
            Ok((_, report)) => {
                state.failure = None;
                if report.complete {
                    // Whatever is settled now, another replica may have mended.
                    state.failed.retain(|id, _| report.unsettled.contains(id));
                }
                state.report = report.clone();
            }
            Err(error) => state.failure = Some(ResourceError::of(error)),
        }
    }

    pub(super) fn sweep_broke_down(&self) {
        let mut state = self.state();
        state.finished = Some(Instant::now());
        let message = "the sweep broke down".to_owned();
        state.failure = Some(ResourceError { message, ..ResourceError::panicked() });
    }

    pub(super) fn passed(&self, id: ProvisionedResourceId, outcome: &Result<PassResult, Error>) {
        let mut state = self.state();
        match outcome {
            Ok(PassResult::NotClaimed) => {}
            Ok(PassResult::Completed { .. } | PassResult::EndedEarly(_)) => {
                drop(state.failed.remove(&id))
            }
            Err(error) => drop(state.failed.insert(id, ResourceError::of(error))),
        }
    }

    /// The last pass over it on this replica failed.
    pub(super) fn has_failed(&self, id: ProvisionedResourceId) -> bool {
        self.state().failed.contains_key(&id)
    }

    pub(super) fn panicked(&self, id: ProvisionedResourceId) {
        self.state().failed.insert(id, ResourceError::panicked());
    }

    pub(super) fn claimed(&self, claimed: Result<(), &Error>) {
        self.state().claims = claimed.err().map(ResourceError::of);
    }

    pub(super) fn relayed(&self, delivered: &Result<RelayReport, Error>) {
        let mut state = self.state();
        match delivered {
            // Nothing to deliver proves nothing.
            Ok(report) if !report.was_busy() && state.relay_is_not_infrastructure() => {}
            Ok(report) => state.relay.clone_from(&report.last_failure),
            Err(error) => state.relay = Some(ResourceError::of(error)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why this replica is not ready, the worst first.
    fn objection(&self, interval: Duration) -> Option<(&'static str, String)> {
        if let Some(failure) = &self.failure {
            return Some((failure.reason, failure.message.clone()));
        }
        let beside = [&self.claims, &self.relay].into_iter().flatten();
        let mut errors =
            self.report.infrastructure().into_iter().chain(beside.filter(|it| it.infrastructure));
        if let Some(trouble) = errors.next() {
            return Some((trouble.reason, trouble.message.clone()));
        }
        let Some(finished) = self.finished else {
            return Some(("no_sweep_yet", "no sweep has finished yet".to_owned()));
        };
        if finished.elapsed() > interval * MOST_INTERVALS {
            let silence =
                format!("no sweep finished within {MOST_INTERVALS} intervals of {interval:?}");
            return Some(("sweep_overdue", silence));
        }
        // A brake is no reason: it is a state of the cluster, which every replica shares, and a replica that is taken
        // out of service serves no operator who wants to release it.
        None
    }

    /// An outbox that answers again is well again, even if it has nothing to deliver.
    fn relay_is_not_infrastructure(&self) -> bool {
        !self.relay.as_ref().is_some_and(|trouble| trouble.infrastructure)
    }
}

#[cfg(test)]
mod tests {
    use broker_ports::{PortError, PortName};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_fails_on_trouble_and_on_silence_and_recovers() {
        let probe = Probe::new(Duration::from_secs(30));
        assert_eq!(
            probe.check().unwrap_err().to_string(),
            "provisioning-broker-reconcile: no sweep has finished yet"
        );
        probe.swept(&Ok((Vec::new(), SweepReport::default())));
        assert_eq!(probe.check(), Ok(()));

        let source = PortError::transient("connection refused");
        probe.swept(&Err(Error::Port { port: PortName::Cluster, source }));
        let failure = probe.check().unwrap_err();
        assert_eq!(
            failure.to_string(),
            "provisioning-broker-reconcile: the cluster failed: connection refused"
        );
        assert_eq!(failure.reason(), "cluster_transient");

        probe.swept(&Ok((Vec::new(), SweepReport::default())));
        assert_eq!(probe.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(91)).await;
        assert_eq!(
            probe.check().unwrap_err().to_string(),
            "provisioning-broker-reconcile: no sweep finished within 3 intervals of 30s"
        );
    }
}
