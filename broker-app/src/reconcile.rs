//! One pass over one resource: claim, prepare, observe, decide, act, persist, give back.

mod home;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use broker_domain::{
    Action, Change, Phase, ProvisionedResource, ProvisionedResourceId, Version, next,
};
use broker_ports::{
    Actor, Attribution, ClaimRequest, ClaimTarget, CorrelationId, Lease, PassOutcome, Ports,
};
use tokio::time::Instant;

use crate::act::drive;
use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::decide::{EarlyExit, Mode, PassState};
use crate::error::{Error, for_schedule};
use crate::observe::observe;
use crate::sweep::Orphans;
use crate::telemetry;
use home::Home;

/// Reconciles resources, one pass at a time.
#[derive(Clone)]
pub struct Reconciler {
    ports: TimedPorts,
    config: Arc<BrokerConfig>,
    home: Home,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassResult {
    /// It went through; the resource was decided to be here.
    Completed {
        /// What was decided to be done.
        action: Action,
        /// The phase before.
        from: Phase,
        /// The phase that was decided.
        to: Phase,
    },
    /// It ended early, quietly.
    EndedEarly(EarlyExit),
    /// Somebody else holds the resource, or it is paused or at rest, or there is none.
    NotClaimed,
}

/// A pass under way: what it holds, and how long it may go on.
pub(crate) struct Pass<'a> {
    pub(crate) ports: &'a TimedPorts,
    pub(crate) config: &'a BrokerConfig,
    pub(crate) lease: Lease,
    pub(crate) by: Attribution,
    /// When the lease was asked for: a worker counts from before it asked.
    asked: Instant,
    /// The version of the row as this pass last knew it, for giving the lease back.
    version: AtomicU64,
    /// What failed and kept the pass from nothing else.
    deferred: Mutex<Option<Error>>,
}

/// Why a pass did not go through.
pub(crate) enum Abort {
    Failed(Error),
    Ended(EarlyExit),
}

impl<E: Into<Error>> From<E> for Abort {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A failure that has to be rolled back, and a row that went away, are looked at again after this.
const SOON: Duration = Duration::from_millis(200);

/// A Node that was told to leave has mostly left.
const AT_ONCE: Duration = Duration::from_millis(10);

/// A Node that takes longer to leave is told so, and looked at, no more often than this.
const SELDOM: Duration = Duration::from_secs(30);

/// What a deletion leaves behind may be of a kind that no watch follows.
const LATER: Duration = Duration::from_secs(2);

/// A pass that went through, and when there has to be another one that no change on the cluster hints at.
struct CompletedPass {
    passed: PassResult,
    due_in: Option<Duration>,
    /// The pass read the composite resource armed, so an accepted loss ends.
    stands: bool,
}

impl Reconciler {
    /// A reconciler over its ports.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Self {
        let config = config.into();
        Self { ports: TimedPorts::new(ports, &config.deadlines), config, home: Home::default() }
    }

    /// A claim for this replica, which gets only what is bound to its own cluster or to none.
    ///
    /// # Errors
    ///
    /// As [`Cluster::identity`](broker_ports::Cluster::identity), until the cluster has said once which one it is: a
    /// replica that does not know that claims nothing.
    pub(crate) async fn claim_request(&self, target: ClaimTarget) -> Result<ClaimRequest, Error> {
        let BrokerConfig { worker, lease, .. } = &*self.config;
        let cluster = self.home.cluster(&self.ports.cluster).await?;
        Ok(ClaimRequest::new(worker.clone(), target, *lease).on_cluster(cluster))
    }

    /// Has the cluster asked again which one it is, before the next claim.
    pub(crate) fn refresh_home(&self) {
        self.home.refresh();
    }

    pub(crate) const fn ports(&self) -> &TimedPorts {
        &self.ports
    }

    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// Runs one pass over a resource, due or not, if nobody else is at it.
    ///
    /// # Errors
    ///
    /// The first thing that failed. It is on the resource's schedule, too, with the time of the next attempt.
    pub async fn reconcile(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        if self.config.mode == Mode::DryRun {
            let outcome = self.look(id).await;
            telemetry::passed(&outcome);
            return outcome;
        }
        let request = self.claim_request(ClaimTarget::One(id)).await?;
        let asked = Instant::now();
        let claimed = self.ports.schedule.write(|it| it.claim(&request)).await?;
        let Some(lease) = claimed.into_iter().next() else {
            telemetry::passed(&Ok(PassResult::NotClaimed));
            return Ok(PassResult::NotClaimed);
        };
        self.work(lease, asked).await
    }

    /// Observes and decides, without a lease: a lease would keep a replica that may change something from its
    /// work.
    async fn look(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let row = self.ports.repository.read(|it| it.get_by_id(id)).await?;
        let Some(resource) = row.filter(|row| !row.at_rest()) else {
            return Ok(PassResult::NotClaimed);
        };
        let look = observe(&self.ports, &resource).await?;
        let from = resource.phase();
        let (action, to) = next(&look.facts(&resource), from);
        look.resolve(&self.ports, &self.config.profiles, &resource, (action, to)).await?;
        Ok(PassResult::Completed { action, from, to })
    }

    /// Follows a hint: a pass, or, if none can be made because the resource is Deleted, a look at what may
    /// have arrived too late for it.
    pub(crate) async fn follow_hint(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let passed = self.reconcile(id).await?;
        if passed == PassResult::NotClaimed {
            Orphans::new(&self.ports, &self.config).hinted(id).await?;
        }
        Ok(passed)
    }

    /// Runs the pass that a lease was claimed for, and gives the lease back.
    pub(crate) async fn work(&self, lease: Lease, asked: Instant) -> Result<PassResult, Error> {
        let outcome = self.hold(lease, asked).await;
        telemetry::passed(&outcome);
        outcome
    }

    async fn hold(&self, lease: Lease, asked: Instant) -> Result<PassResult, Error> {
        if lease.takeover {
            telemetry::taken_over();
            tracing::warn!(resource = %lease.resource, epoch = %lease.epoch, "a lease was taken over");
        }
        let correlation = format!("pass:{}:{}", lease.resource, lease.epoch);
        let by = Attribution::new(Actor::system(), CorrelationId::new(correlation)?);
        let version = AtomicU64::new(Version::UNSTORED.get());
        let (ports, config, deferred) = (&self.ports, &self.config, Mutex::default());
        let pass = Pass { ports, config, lease, by, asked, version, deferred };
        let outcome = match pass.run().await {
            Ok(went) => Ok(went),
            Err(Abort::Ended(ending)) => Ok(CompletedPass {
                passed: PassResult::EndedEarly(ending),
                due_in: None,
                stands: false,
            }),
            Err(Abort::Failed(error)) => Err(error),
        };
        pass.give_back(&outcome).await?;
        outcome.map(|went| went.passed)
    }
}

/// When a pass has to follow one that went through and left the row in a phase, if no hint is to be expected.
///
/// Mostly it need not: to decide the same facts again would change nothing, the next facts come with a hint, one that comes
/// while the pass is under way is kept, and the sweep finds what no hint told of. So it is with a phase that was decided and
/// not stored, under the brake or in a dry run. But nothing on the cluster tells that a Node has left: that is looked at
/// again, each time after as long as it has taken already, for a Node may take long to drain. Where another replica's clock
/// said when it began, as long as the two are apart is as good. And what failed may have to be rolled back.
fn due_in(action: Action, from: Phase, to: Phase, in_phase: Duration) -> Option<Duration> {
    match action {
        Action::DeregisterNode => Some(in_phase.clamp(AT_ONCE, SELDOM)),
        Action::DeleteSubstrate if from != to => Some(LATER),
        Action::Noop if from != to && to == Phase::Failed => Some(SOON),
        Action::Noop | Action::Apply | Action::DeleteSubstrate => None,
    }
}

impl Pass<'_> {
    /// The pass itself, top to bottom.
    #[tracing::instrument(name = "broker.pass", skip_all, fields(resource = %self.lease.resource))]
    async fn run(&self) -> Result<CompletedPass, Abort> {
        let Pass { ports, config, .. } = self;
        let mode = config.mode;
        let Some(resource) = self.reread().await? else {
            return Ok(CompletedPass {
                passed: PassResult::NotClaimed,
                due_in: Some(SOON),
                stands: false,
            });
        };
        let from = resource.phase();

        let resource = drive(self, PassState::prepare(resource, mode), None).await?; // I/O: rollback request, closing of tokens
        let look = observe(ports, &resource).await?; // I/O: cluster and mesh, read only
        let (action, to) = next(&look.facts(&resource), resource.phase()); // pure
        let observed = look.resolve(ports, &config.profiles, &resource, (action, to)).await?; // I/O: what acting needs, read only
        let acting = PassState::act(resource, mode, observed.seen.clone(), action);
        let resource = drive(self, acting, Some(&observed)).await?; // I/O: the effects that the pure step asks for
        let persisting = PassState::persist(resource, mode, observed.seen.clone(), to);
        let resource = drive(self, persisting, Some(&observed)).await?; // I/O: phase, event and audit line, one transaction
        let in_phase = ports.clock.now() - resource.phase_entered_at();
        let due_in = due_in(action, from, resource.phase(), in_phase.unsigned_abs());
        if let Some(error) = observed.unresolved.or_else(|| self.take_deferred()) {
            return Err(Abort::Failed(error));
        }
        let stands = observed.seen.stands_armed();
        Ok(CompletedPass { passed: PassResult::Completed { action, from, to }, due_in, stands })
    }

    /// The row as it is now that the lease is ours: what was read before proves nothing.
    async fn reread(&self) -> Result<Option<ProvisionedResource>, Error> {
        let row = self.ports.repository.read(|it| it.get_by_id(self.lease.resource)).await?;
        if let Some(resource) = &row {
            self.version.store(resource.version().get(), Ordering::Relaxed);
        }
        Ok(row)
    }

    /// Lets the pass go on, and fail with this at its end.
    pub(crate) fn fail_at_the_end(&self, error: Error) {
        *self.deferred.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn take_deferred(&self) -> Option<Error> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How long a call may take at most: nothing is under way in the margin before the lease ends.
    pub(crate) fn left(&self) -> Result<Duration, Error> {
        let usable = self.config.lease.saturating_sub(self.config.lease_margin);
        match usable.checked_sub(self.asked.elapsed()) {
            Some(left) if !left.is_zero() => Ok(left),
            Some(_) | None => Err(Error::LeaseRanOut),
        }
    }

    /// Notes a committed change, and tells log and metrics if the phase changed.
    pub(crate) fn committed(&self, before: &ProvisionedResource, change: &Change) {
        let resource = change.resource();
        telemetry::changed(before, resource);
        self.version.store(resource.version().get(), Ordering::Relaxed);
        if let Some(from) = change.previous_phase().filter(|from| *from != resource.phase()) {
            tracing::info!(resource = %resource.id(), %from, to = %resource.phase(), "the phase changed");
        }
    }

    /// Gives the lease back. If that fails the lease ends by itself, so it is no reason to fail the pass,
    /// unless the pass went well and nobody would hear of the store's trouble otherwise.
    async fn give_back(&self, outcome: &Result<CompletedPass, Error>) -> Result<(), Error> {
        let seen = self.version.load(Ordering::Relaxed);
        // A row that could not be read has no version to compare; its failure counts all the same.
        let seen = Version::new(seen).unwrap_or(Version::UNSTORED);
        let outcome_for_schedule = match outcome {
            Ok(CompletedPass { passed: PassResult::EndedEarly(ending), .. }) => {
                PassOutcome::Ended {
                    reason: ending.as_str().to_owned(),
                    message: ending.message().to_owned(),
                }
            }
            Ok(CompletedPass { due_in, stands: true, .. }) => {
                PassOutcome::Stands { due_in: *due_in }
            }
            Ok(CompletedPass { due_in, .. }) => PassOutcome::Succeeded { due_in: *due_in },
            Err(error) => PassOutcome::Failed {
                reason: error.reason().to_owned(),
                message: for_schedule(error),
                retry_after: error.retry_after(),
            },
        };
        let (schedule, told) = (&self.ports.schedule, &outcome_for_schedule);
        let released = schedule.write(|it| it.release(&self.lease, seen, told)).await;
        match (released, outcome) {
            (Err(error), Ok(_)) => Err(error),
            (Ok(_) | Err(_), _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_hints_at_is_looked_at_again() {
        use Phase::{Deprovisioning, Deregistering, Failed, Pending, Provisioning, Ready};
        for (action, from, to, expected, why) in [
            (Action::Noop, Provisioning, Provisioning, None, "a hint tells of the next change"),
            (Action::Apply, Pending, Provisioning, None, "the same facts say the same"),
            (Action::Noop, Provisioning, Ready, None, "it is where it should stay"),
            (Action::Noop, Provisioning, Failed, Some(SOON), "it may have to be rolled back"),
            (Action::Noop, Failed, Failed, None, "it is at rest"),
            (Action::DeleteSubstrate, Deregistering, Deprovisioning, Some(LATER), "what is left"),
            (Action::DeleteSubstrate, Deprovisioning, Deprovisioning, None, "the watch tells"),
            (Action::DeregisterNode, Deregistering, Deregistering, Some(AT_ONCE), "nobody tells"),
        ] {
            assert_eq!(due_in(action, from, to, Duration::ZERO), expected, "{why}");
        }
    }

    #[test]
    fn a_node_that_drains_for_long_is_looked_at_ever_less_often() {
        let deregistering = Phase::Deregistering;
        let (mut elapsed, mut looks) = (Duration::ZERO, 0);
        while elapsed < Duration::from_mins(10) {
            let wait = due_in(Action::DeregisterNode, deregistering, deregistering, elapsed);
            elapsed += wait.unwrap();
            looks += 1;
        }
        assert_eq!(looks, 32, "13 in the first 41 seconds, and then one in each half minute");
    }
}
