//! The readiness probe `provisioning-broker-reconcile`, from sweeps, passes, claims and the relay.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker_domain::{ProvisionedResource, ProvisionedResourceId};
use tokio::time::Instant;

use crate::emit::RelayReport;
use crate::error::Error;
use crate::observe::Gate;
use crate::reconcile::PassResult;
use crate::sweep::{ResourceError, SweepReport, Work};

/// The probe fails if no sweep finished within this many sweep intervals.
const MAX_INTERVALS: u32 = 3;

/// Reports whether sweeps are current and whether the broker's dependencies answer.
#[derive(Clone)]
pub struct Probe {
    state: Arc<Mutex<State>>,
    interval: Duration,
}

struct State {
    /// When the last sweep finished or failed; `None` before the first one: the probe is not ready then.
    finished: Option<Instant>,
    failure: Option<ResourceError>,
    report: SweepReport,
    /// Resources whose last pass on this replica failed.
    failed: BTreeMap<ProvisionedResourceId, ResourceError>,
    /// Why the last delivery of events failed.
    relay: Option<ResourceError>,
    /// Why the last claim of due work failed.
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
    /// A stable code. It names no server, so it is safe to show to unauthenticated callers.
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
    /// [`ProbeFailure`] with the reason.
    pub fn check(&self) -> Result<(), ProbeFailure> {
        let failure = self.state().unready_reason(self.interval);
        failure.map_or(Ok(()), |(reason, message)| Err(ProbeFailure { reason, message }))
    }

    /// The report of the last successful sweep, plus the resources whose last pass on this replica failed.
    pub fn report(&self) -> SweepReport {
        let state = self.state();
        let mut report = state.report.clone();
        for (id, error) in &state.failed {
            report.errors.entry(*id).or_insert_with(|| error.clone());
        }
        report
    }

    /// Whether a sweep finished recently, so that the probe's data is current.
    pub(crate) fn is_current(&self) -> bool {
        let finished = self.state().finished;
        finished.is_some_and(|finished| finished.elapsed() <= self.interval * MAX_INTERVALS)
    }

    /// The reason of a resource's error, from its last pass here or from the last sweep.
    pub(crate) fn error_reason(&self, id: ProvisionedResourceId) -> Option<&'static str> {
        let state = self.state();
        // If the sweep itself failed, that is the error of every resource.
        let error = state.failed.get(&id).or_else(|| state.report.errors.get(&id));
        error.or(state.failure.as_ref()).map(|error| error.reason)
    }

    /// Whether a resource is paused, as far as this replica knows.
    pub(crate) fn is_paused(&self, id: ProvisionedResourceId) -> bool {
        self.state().report.paused.contains(&id)
    }

    /// Records a pause or resume by a caller of this process, ahead of the next sweep.
    pub(crate) fn set_paused(&self, id: ProvisionedResourceId, paused: bool) {
        let all_paused = &mut self.state().report.paused;
        if paused {
            all_paused.insert(id);
        } else {
            all_paused.remove(&id);
        }
    }

    /// The closed gate that the last sweep found; `None` once the row has changed.
    pub(crate) fn closed_gate(&self, resource: &ProvisionedResource) -> Option<Gate> {
        let (version, gate) = *self.state().report.gated.get(&resource.id())?;
        (version == resource.version()).then_some(gate)
    }

    /// Whether Crossplane reported a problem in the last sweep; `false` once the row has changed.
    pub(crate) fn has_problem(&self, resource: &ProvisionedResource) -> bool {
        self.state().report.with_problem.get(&resource.id()) == Some(&resource.version())
    }

    /// Whether a brake holds the resource.
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
                    // A pass of another replica may have settled the resource.
                    state.failed.retain(|id, _| report.unsettled.contains(id));
                }
                state.report = report.clone();
            }
            Err(error) => state.failure = Some(ResourceError::from_error(error)),
        }
    }

    pub(super) fn sweep_panicked(&self) {
        let mut state = self.state();
        state.finished = Some(Instant::now());
        let message = "the sweep panicked".to_owned();
        state.failure = Some(ResourceError { message, ..ResourceError::panicked() });
    }

    pub(super) fn passed(&self, id: ProvisionedResourceId, outcome: &Result<PassResult, Error>) {
        let mut state = self.state();
        match outcome {
            Ok(PassResult::NotClaimed) => {}
            Ok(PassResult::Completed { .. } | PassResult::EndedEarly(_)) => {
                drop(state.failed.remove(&id));
            }
            Err(error) => drop(state.failed.insert(id, ResourceError::from_error(error))),
        }
    }

    pub(super) fn has_failed(&self, id: ProvisionedResourceId) -> bool {
        self.state().failed.contains_key(&id)
    }

    pub(super) fn panicked(&self, id: ProvisionedResourceId) {
        self.state().failed.insert(id, ResourceError::panicked());
    }

    pub(super) fn claimed(&self, claimed: Result<(), &Error>) {
        self.state().claims = claimed.err().map(ResourceError::from_error);
    }

    pub(super) fn relayed(&self, delivered: &Result<RelayReport, Error>) {
        let mut state = self.state();
        match delivered {
            // An empty batch proves that the outbox works, but not the receiver.
            Ok(report) if !report.was_busy() && !state.outbox_failed() => {}
            Ok(report) => state.relay.clone_from(&report.last_failure),
            Err(error) => state.relay = Some(ResourceError::from_error(error)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why this replica is not ready, most severe first.
    fn unready_reason(&self, interval: Duration) -> Option<(&'static str, String)> {
        if let Some(failure) = &self.failure {
            return Some((failure.reason, failure.message.clone()));
        }
        let claim_and_relay_errors = [&self.claims, &self.relay].into_iter().flatten();
        let mut errors = self
            .report
            .infrastructure()
            .into_iter()
            .chain(claim_and_relay_errors.filter(|it| it.infrastructure));
        if let Some(error) = errors.next() {
            return Some((error.reason, error.message.clone()));
        }
        let Some(finished) = self.finished else {
            return Some(("no_sweep_yet", "no sweep has finished yet".to_owned()));
        };
        if finished.elapsed() > interval * MAX_INTERVALS {
            let message =
                format!("no sweep finished within {MAX_INTERVALS} intervals of {interval:?}");
            return Some(("sweep_overdue", message));
        }
        // A brake does not make a replica unready. Every replica shares it, and an unready replica could not serve
        // the operator who releases it.
        None
    }

    fn outbox_failed(&self) -> bool {
        self.relay.as_ref().is_some_and(|error| error.infrastructure)
    }
}

#[cfg(test)]
mod tests {
    use broker_ports::{PortError, PortName};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn probe_fails_on_errors_and_overdue_sweeps_and_recovers() {
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
