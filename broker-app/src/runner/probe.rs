//! The readiness probe `provisioning-broker-reconcile`: is this replica on its feet?

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, in_words};
use crate::sweep::{SweepReport, Work};

/// A probe that fails has not seen a sweep finish within this many intervals.
const MOST_INTERVALS: u32 = 3;

/// Tells whether the last sweep found store and cluster in order, and whether it was not too long ago.
#[derive(Clone)]
pub struct Probe {
    state: Arc<Mutex<State>>,
    interval: Duration,
}

struct State {
    /// When a sweep last finished, well or not.
    finished: Instant,
    trouble: Option<String>,
    brake: Option<String>,
}

/// Why a replica is not ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}", name = Probe::NAME)]
pub struct ProbeFailure {
    message: String,
}

impl Probe {
    /// The probe's stable name.
    pub const NAME: &str = "provisioning-broker-reconcile";

    pub(super) fn new(interval: Duration) -> Self {
        let state = State { finished: Instant::now(), trouble: None, brake: None };
        Self { state: Arc::new(Mutex::new(state)), interval }
    }

    /// Whether this replica is ready.
    ///
    /// # Errors
    ///
    /// [`ProbeFailure`] that says why not.
    pub fn check(&self) -> Result<(), ProbeFailure> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match &state.trouble {
            Some(trouble) => trouble.clone(),
            None if state.finished.elapsed() > self.interval * MOST_INTERVALS => {
                format!(
                    "no sweep finished within {MOST_INTERVALS} intervals of {:?}",
                    self.interval
                )
            }
            None => match &state.brake {
                Some(brake) => brake.clone(),
                None => return Ok(()),
            },
        };
        Err(ProbeFailure { message })
    }

    pub(super) fn note(&self, swept: &Result<(Vec<Work>, SweepReport), Error>) {
        let (trouble, brake) = match swept {
            Err(error) => (Some(in_words(error)), None),
            Ok((_, report)) => {
                let footing = report.troubles.values().find(|trouble| trouble.infrastructure);
                let brake = report.brake.as_ref().map(|brake| {
                    format!(
                        "the brake is on: {} of {} composite resources were missing",
                        brake.absent, brake.expected
                    )
                });
                (footing.map(|trouble| trouble.message.clone()), brake)
            }
        };
        self.set(State { finished: Instant::now(), trouble, brake });
    }

    pub(super) fn note_breakdown(&self, message: &str) {
        let trouble = Some(format!("the sweep broke down: {message}"));
        self.set(State { finished: Instant::now(), trouble, brake: None });
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

#[cfg(test)]
mod tests {
    use broker_ports::{PortError, PortName};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_fails_on_trouble_and_on_silence_and_recovers() {
        let probe = Probe::new(Duration::from_secs(30));
        assert_eq!(probe.check(), Ok(()));

        let source = PortError::transient("connection refused");
        probe.note(&Err(Error::Port { port: PortName::Cluster, source }));
        assert_eq!(
            probe.check().unwrap_err().to_string(),
            "provisioning-broker-reconcile: the cluster failed: connection refused"
        );

        probe.note(&Ok((Vec::new(), SweepReport::default())));
        assert_eq!(probe.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(91)).await;
        assert_eq!(
            probe.check().unwrap_err().to_string(),
            "provisioning-broker-reconcile: no sweep finished within 3 intervals of 30s"
        );
    }
}
