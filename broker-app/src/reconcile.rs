//! One pass over one resource: claim, prepare, observe, decide, act, persist, release.

mod home_cluster;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use broker_domain::{
    Action, Change, Phase, ProvisionedResource, ProvisionedResourceId, Version, next,
};
use broker_ports::{
    Actor, Attribution, Backoff, ClaimRequest, ClaimTarget, CorrelationId, Lease, PassOutcome,
    Ports,
};
use tokio::time::Instant;

use crate::act::drive;
use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::decide::{EarlyExit, Mode, PassState};
use crate::error::{Error, schedule_message};
use crate::observe::observe;
use crate::sweep::{Orphans, SharedConfigs};
use crate::telemetry;
use home_cluster::HomeCluster;

/// Reconciles resources, one pass at a time.
#[derive(Clone)]
pub struct Reconciler {
    ports: TimedPorts,
    config: Arc<BrokerConfig>,
    home: HomeCluster,
}

/// The result of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassResult {
    /// It completed every stage.
    Completed {
        /// The decided action.
        action: Action,
        /// The phase before.
        from: Phase,
        /// The decided phase.
        to: Phase,
    },
    /// It ended early, without an error.
    EndedEarly(EarlyExit),
    /// No pass ran: another worker holds the lease, or the resource is paused, terminal or does not exist.
    NotClaimed,
}

pub(crate) struct Pass<'a> {
    pub(crate) ports: &'a TimedPorts,
    pub(crate) config: &'a BrokerConfig,
    pub(crate) lease: Lease,
    pub(crate) by: Attribution,
    /// When the claim was sent. The pass counts its lease from here, so it never overestimates the time left.
    claim_sent_at: Instant,
    /// The last known version of the row; the release of the lease compares it.
    version: AtomicU64,
    /// A failure that did not stop the pass.
    deferred: Mutex<Option<Error>>,
}

pub(crate) enum Abort {
    Failed(Error),
    Ended(EarlyExit),
}

impl<E: Into<Error>> From<E> for Abort {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

// These delays are not settings: they follow from the reaction times of Crossplane and Kubernetes. A watch event or a
// sweep may trigger the next pass earlier, and no result depends on them.

/// The delay of the next pass after a failure that may be rolled back, and after a purge of the claimed row. Also the
/// first back-off of a pass that ended early: the other writer needs time to finish.
const SHORT_DELAY: Duration = Duration::from_millis(200);

/// First poll of a draining Node: most Nodes leave at once.
const FIRST_DRAIN_POLL: Duration = Duration::from_millis(10);

/// Longest poll interval of a draining Node.
const LONGEST_DRAIN_POLL: Duration = Duration::from_secs(30);

/// Delay after a deletion: no watch may report the remaining objects.
const DELETION_DELAY: Duration = Duration::from_secs(2);

/// A completed pass.
struct CompletedPass {
    result: PassResult,
    /// The delay of the next pass; `None` if a hint or the sweep triggers it.
    due_in: Option<Duration>,
    /// The pass read the composite resource armed, which ends an accepted loss.
    armed: bool,
}

impl Reconciler {
    /// Creates a reconciler over its ports.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Self {
        let config = config.into();
        Self {
            ports: TimedPorts::new(ports, &config.deadlines),
            config,
            home: HomeCluster::default(),
        }
    }

    /// A claim request for rows that are bound to this replica's cluster, or to none.
    ///
    /// # Errors
    ///
    /// As [`Cluster::identity`](broker_ports::Cluster::identity), until the identity is known: a replica that does not
    /// know its cluster claims nothing.
    pub(crate) async fn claim_request(&self, target: ClaimTarget) -> Result<ClaimRequest, Error> {
        let BrokerConfig { worker, lease, .. } = &*self.config;
        let cluster = self.home.cluster(&self.ports.cluster).await?;
        Ok(ClaimRequest::new(worker.clone(), target, *lease).on_cluster(cluster))
    }

    /// Reads the cluster's identity again before the next claim.
    pub(crate) fn refresh_home(&self) {
        self.home.refresh();
    }

    pub(crate) const fn ports(&self) -> &TimedPorts {
        &self.ports
    }

    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// Runs one pass over a resource, due or not, unless another worker holds its lease.
    ///
    /// # Errors
    ///
    /// The first failure. The schedule stores it too, with the time of the next attempt.
    pub async fn reconcile(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        if self.config.mode == Mode::DryRun {
            let outcome = self.observe_only(id).await;
            telemetry::pass_finished(&outcome);
            return outcome;
        }
        let request = self.claim_request(ClaimTarget::One(id)).await?;
        let claim_sent_at = Instant::now();
        let claimed = self.ports.schedule.write(|it| it.claim(&request)).await?;
        let Some(lease) = claimed.into_iter().next() else {
            telemetry::pass_finished(&Ok(PassResult::NotClaimed));
            return Ok(PassResult::NotClaimed);
        };
        self.run_claimed(lease, claim_sent_at).await
    }

    /// Observes and decides in a dry run. It takes no lease, because a lease would block a live replica.
    async fn observe_only(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let row = self.ports.repository.read(|it| it.get_by_id(id)).await?;
        let Some(resource) = row.filter(|row| !row.is_terminal()) else {
            return Ok(PassResult::NotClaimed);
        };
        let reading = observe(&self.ports, &resource).await?;
        let from = resource.phase();
        let (action, to) = next(&reading.facts(&resource), from);
        reading.resolve(&self.ports, &self.config.profiles, &resource, (action, to)).await?;
        Ok(PassResult::Completed { action, from, to })
    }

    /// Follows a hint with a pass. A Deleted resource has no pass, so its late objects are handled as orphans.
    pub(crate) async fn follow_hint(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let passed = self.reconcile(id).await?;
        if passed == PassResult::NotClaimed {
            Orphans::new(&self.ports, &self.config).follow_hint(id).await?;
        }
        Ok(passed)
    }

    /// Runs the pass of a claimed lease, and releases the lease.
    pub(crate) async fn run_claimed(
        &self,
        lease: Lease,
        claim_sent_at: Instant,
    ) -> Result<PassResult, Error> {
        let outcome = self.run_and_release(lease, claim_sent_at).await;
        telemetry::pass_finished(&outcome);
        outcome
    }

    async fn run_and_release(
        &self,
        lease: Lease,
        claim_sent_at: Instant,
    ) -> Result<PassResult, Error> {
        if lease.takeover {
            telemetry::lease_taken_over();
            tracing::warn!(resource = %lease.resource, epoch = %lease.epoch, "a lease was taken over");
        }
        let correlation = format!("pass:{}:{}", lease.resource, lease.epoch);
        let by = Attribution::new(Actor::system(), CorrelationId::new(correlation)?);
        let version = AtomicU64::new(Version::UNSTORED.get());
        let (ports, config, deferred) = (&self.ports, &self.config, Mutex::default());
        let pass = Pass { ports, config, lease, by, claim_sent_at, version, deferred };
        let outcome = match pass.run().await {
            Ok(completed) => Ok(completed),
            Err(Abort::Ended(exit)) => Ok(CompletedPass {
                result: PassResult::EndedEarly(exit),
                due_in: None,
                armed: false,
            }),
            Err(Abort::Failed(error)) => Err(error),
        };
        pass.release_lease(&outcome).await?;
        outcome.map(|completed| completed.result)
    }
}

/// When the next pass is due after a completed one; `None` if a hint or the sweep triggers it.
///
/// Usually `None`: re-deciding unchanged facts is a no-op, and changes arrive as hints (queued while a pass runs) or
/// through the sweep. This includes a decided phase that a brake or a dry run did not store.
///
/// Three cases need a due time, because no hint is certain:
///
/// - A draining Node: no watch reports that it has left, so passes poll. Each wait is as long as the phase has lasted.
///   Clock skew between replicas only shifts these polls.
/// - A first deletion of the substrate: no watch may report the remaining objects.
/// - A new failure, which may need a rollback.
fn due_in(action: Action, from: Phase, to: Phase, in_phase: Duration) -> Option<Duration> {
    match action {
        Action::DeregisterNode => Some(in_phase.clamp(FIRST_DRAIN_POLL, LONGEST_DRAIN_POLL)),
        Action::DeleteSubstrate if from != to => Some(DELETION_DELAY),
        Action::Noop if from != to && to == Phase::Failed => Some(SHORT_DELAY),
        Action::Noop | Action::Apply | Action::DeleteSubstrate => None,
    }
}

impl Pass<'_> {
    #[tracing::instrument(name = "broker.pass", skip_all, fields(resource = %self.lease.resource))]
    async fn run(&self) -> Result<CompletedPass, Abort> {
        let Pass { ports, config, .. } = self;
        let mode = config.mode;
        let Some(resource) = self.read_row().await? else {
            return Ok(CompletedPass {
                result: PassResult::NotClaimed,
                due_in: Some(SHORT_DELAY),
                armed: false,
            });
        };
        let from = resource.phase();

        let resource = drive(self, PassState::prepare(resource, mode), None).await?; // I/O: rollback request, closing of tokens
        let reading = observe(ports, &resource).await?; // I/O: cluster and mesh, read only
        let (action, to) = next(&reading.facts(&resource), resource.phase()); // pure
        let waits_for_config = action == Action::Apply && reading.leaving_config().is_some();
        if let Some(leaving) = reading.leaving_config().filter(|_| waits_for_config) {
            SharedConfigs::new(ports, config).remove(leaving).await?; // I/O: deletion of what former users left
        }
        let resolved = reading.resolve(ports, &config.profiles, &resource, (action, to)).await?; // I/O: input of the act stage, read only
        let acting = PassState::act(resource, mode, resolved.observation.clone(), action);
        let resource = drive(self, acting, Some(&resolved)).await?; // I/O: the effects of the act stage
        let persisting = PassState::persist(resource, mode, resolved.observation.clone(), to);
        let resource = drive(self, persisting, Some(&resolved)).await?; // I/O: phase, event and audit line, one transaction
        let in_phase = ports.clock.now() - resource.phase_entered_at();
        let due_in = due_in(action, from, resource.phase(), in_phase.unsigned_abs())
            .or_else(|| waits_for_config.then_some(DELETION_DELAY));
        if resource.phase() == Phase::Deleted {
            self.after_last_user(&resource).await; // I/O: deletion of a shared ProviderConfig without users
        }
        if let Some(error) = resolved.unresolved.or_else(|| self.take_deferred()) {
            return Err(Abort::Failed(error));
        }
        let armed = resolved.observation.is_armed();
        Ok(CompletedPass { result: PassResult::Completed { action, from, to }, due_in, armed })
    }

    /// A failure is not an error of the pass, because the resource is Deleted. The next sweep continues.
    async fn after_last_user(&self, resource: &ProvisionedResource) {
        let shared = SharedConfigs::new(self.ports, self.config);
        if let Err(error) = shared.after_user(resource).await {
            tracing::warn!(resource = %resource.id(), %error, "a shared ProviderConfig could not be removed yet");
        }
    }

    /// Reads the row under the lease; an earlier read may be stale.
    async fn read_row(&self) -> Result<Option<ProvisionedResource>, Error> {
        let row = self.ports.repository.read(|it| it.get_by_id(self.lease.resource)).await?;
        if let Some(resource) = &row {
            self.version.store(resource.version().get(), Ordering::Relaxed);
        }
        Ok(row)
    }

    /// Lets the pass continue, and fail with this error at its end.
    pub(crate) fn fail_at_the_end(&self, error: Error) {
        *self.deferred.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn take_deferred(&self) -> Option<Error> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The time limit of the next call: every call has to return before the margin at the end of the lease.
    pub(crate) fn time_left(&self) -> Result<Duration, Error> {
        let usable = self.config.lease.saturating_sub(self.config.lease_margin);
        match usable.checked_sub(self.claim_sent_at.elapsed()) {
            Some(left) if !left.is_zero() => Ok(left),
            Some(_) | None => Err(Error::LeaseRanOut),
        }
    }

    /// Logs and measures a committed phase change.
    pub(crate) fn committed(&self, before: &ProvisionedResource, change: &Change) {
        let resource = change.resource();
        telemetry::phase_changed(before, resource);
        self.version.store(resource.version().get(), Ordering::Relaxed);
        if let Some(from) = change.previous_phase().filter(|from| *from != resource.phase()) {
            tracing::info!(resource = %resource.id(), %from, to = %resource.phase(), "the phase changed");
        }
    }

    /// Releases the lease. After a failed pass, an error of the release is ignored: the lease expires. After a
    /// successful pass it is returned, because no other call would report the failure of the store.
    async fn release_lease(&self, outcome: &Result<CompletedPass, Error>) -> Result<(), Error> {
        let version_read = self.version.load(Ordering::Relaxed);
        // A row that could not be read has no version to compare; the schedule still counts the failure.
        let version_read = Version::new(version_read).unwrap_or(Version::UNSTORED);
        let backoff = self.config.backoff;
        let outcome_for_schedule = match outcome {
            Ok(CompletedPass { result: PassResult::EndedEarly(exit), .. }) => PassOutcome::Ended {
                reason: exit.as_str().to_owned(),
                message: exit.message().to_owned(),
                backoff: Backoff::new(SHORT_DELAY, backoff.longest),
            },
            Ok(CompletedPass { due_in, armed: true, .. }) => {
                PassOutcome::SucceededArmed { due_in: *due_in }
            }
            Ok(CompletedPass { due_in, .. }) => PassOutcome::Succeeded { due_in: *due_in },
            Err(error) => failed_outcome(error, backoff),
        };
        let (schedule, report) = (&self.ports.schedule, &outcome_for_schedule);
        let released = schedule.write(|it| it.release(&self.lease, version_read, report)).await;
        match (released, outcome) {
            (Err(error), Ok(_)) => Err(error),
            (Ok(_) | Err(_), _) => Ok(()),
        }
    }
}

/// What a failed pass reports to the schedule.
pub(crate) fn failed_outcome(error: &Error, backoff: Backoff) -> PassOutcome {
    PassOutcome::Failed {
        reason: error.reason().to_owned(),
        message: schedule_message(error),
        retry_after: error.retry_after(),
        backoff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_pass_is_scheduled_only_if_no_hint_will_come() {
        use Phase::{Deprovisioning, Deregistering, Failed, Pending, Provisioning, Ready};
        for (action, from, to, expected, why) in [
            (Action::Noop, Provisioning, Provisioning, None, "a hint reports the next change"),
            (Action::Apply, Pending, Provisioning, None, "unchanged facts need no pass"),
            (Action::Noop, Provisioning, Ready, None, "it is settled"),
            (
                Action::Noop,
                Provisioning,
                Failed,
                Some(SHORT_DELAY),
                "it may have to be rolled back",
            ),
            (Action::Noop, Failed, Failed, None, "it is terminal"),
            (
                Action::DeleteSubstrate,
                Deregistering,
                Deprovisioning,
                Some(DELETION_DELAY),
                "remaining objects may have no watch",
            ),
            (Action::DeleteSubstrate, Deprovisioning, Deprovisioning, None, "the watch reports it"),
            (
                Action::DeregisterNode,
                Deregistering,
                Deregistering,
                Some(FIRST_DRAIN_POLL),
                "no watch reports it",
            ),
        ] {
            assert_eq!(due_in(action, from, to, Duration::ZERO), expected, "{why}");
        }
    }

    #[test]
    fn slow_drain_is_polled_less_and_less_often() {
        let deregistering = Phase::Deregistering;
        let (mut elapsed, mut polls) = (Duration::ZERO, 0);
        while elapsed < Duration::from_mins(10) {
            let wait = due_in(Action::DeregisterNode, deregistering, deregistering, elapsed);
            elapsed += wait.unwrap();
            polls += 1;
        }
        assert_eq!(polls, 32, "13 polls in the first 41 seconds, then one every 30 seconds");
    }
}
