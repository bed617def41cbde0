//! The runner: keeps a replica at work until it is told to stop, and owns every task that it starts.
//!
//! Work comes from three sides. What is due is claimed; that is how declarations, deletions and retries come
//! along, at once when the store sends a wake-up. What changed on the cluster is hinted at. What neither told
//! is found by the sweep.

mod lanes;
mod probe;

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_ports::{ClaimRequest, ClaimTarget, Hints, Lane, Lease, PortName, Wakeups};
use futures_util::StreamExt;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use lanes::{Job, Lanes};
pub use probe::{Probe, ProbeFailure};

use crate::call::{Kind, call};
use crate::error::{Error, in_words};
use crate::pass::{Passed, Reconciler};
use crate::relay::Relay;
use crate::sweep::{SweepReport, Sweeper, Work};

/// Configuration of the runner.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// How often everything is looked at.
    pub sweep_interval: Duration,
    /// How often due work is asked for when nothing woke the runner up.
    pub poll_interval: Duration,
    /// How many passes run at once in each lane.
    pub workers_per_lane: usize,
    /// Refuse to start if any resource is in trouble, and not only if store or cluster are.
    pub strict: bool,
    /// How long passes that are under way may take to finish when the runner is stopped.
    pub stop_within: Duration,
}

/// Keeps a replica at work.
pub struct Runner {
    reconciler: Arc<Reconciler>,
    sweeper: Arc<Sweeper>,
    relay: Relay,
    config: RunnerConfig,
    probe: Probe,
}

/// Why a runner did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootError {
    /// Store or cluster could not be asked.
    #[error("the boot sweep failed")]
    Infrastructure(#[source] Error),
    /// A resource is in trouble, and the configuration says that this is too much.
    #[error("{resource} is in trouble ({reason}) and the runner is strict: {message}")]
    Trouble {
        /// The first such resource.
        resource: ProvisionedResourceId,
        /// Its reason.
        reason: &'static str,
        /// In words.
        message: String,
    },
}

/// What a finished pass tells the runner.
type Finished = Result<Passed, Error>;

impl Runner {
    /// A runner over what it runs.
    pub fn new(
        reconciler: Reconciler,
        sweeper: Sweeper,
        relay: Relay,
        config: RunnerConfig,
    ) -> Self {
        let probe = Probe::new(config.sweep_interval);
        let (reconciler, sweeper) = (Arc::new(reconciler), Arc::new(sweeper));
        Self { reconciler, sweeper, relay, config, probe }
    }

    /// The readiness probe, named `provisioning-broker-reconcile`.
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// Sweeps once before anything else, and refuses to go on if the broker's own footing is at fault.
    ///
    /// # Errors
    ///
    /// [`BootError`].
    pub async fn boot(&self) -> Result<(Vec<Work>, SweepReport), BootError> {
        let swept = self.sweeper.sweep().await;
        self.probe.note(&swept);
        let (work, report) = swept.map_err(BootError::Infrastructure)?;
        if let Some((resource, trouble)) = report.troubles.first_key_value()
            && self.config.strict
        {
            return Err(BootError::Trouble {
                resource: *resource,
                reason: trouble.reason,
                message: trouble.message.clone(),
            });
        }
        Ok((work, report))
    }

    /// Boots, works until `stop` is ready, and ends: passes under way may finish within their time, and no
    /// task is left when this returns.
    ///
    /// # Errors
    ///
    /// [`BootError`]; once it works it does not fail.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), BootError> {
        let (work, _) = self.boot().await?;
        let mut at_work = AtWork::new(&self);
        at_work.enqueue(work);
        at_work.until(stop).await;
        at_work.finish(self.config.stop_within).await;
        Ok(())
    }
}

/// A runner at work: its lanes and the tasks that it owns.
struct AtWork<'a> {
    runner: &'a Runner,
    lanes: Lanes,
    passes: JoinSet<Finished>,
    /// Which job a task does: a task that breaks down cannot say so itself.
    jobs: HashMap<task::Id, Job>,
    sweeps: JoinSet<Result<(Vec<Work>, SweepReport), Error>>,
    relay: JoinSet<()>,
}

impl<'a> AtWork<'a> {
    fn new(runner: &'a Runner) -> Self {
        let lanes = Lanes::new(runner.config.workers_per_lane);
        let mut relay = JoinSet::new();
        relay.spawn(relay_loop(runner.relay.clone(), runner.config.poll_interval));
        Self {
            runner,
            lanes,
            passes: JoinSet::new(),
            jobs: HashMap::new(),
            sweeps: JoinSet::new(),
            relay,
        }
    }

    fn enqueue(&mut self, work: Vec<Work>) {
        for Work { resource, lane, .. } in work {
            self.lanes.enqueue(lane, resource);
        }
        self.start_passes();
    }

    async fn until(&mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut sweep = interval(self.runner.config.sweep_interval);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweep.reset(); // The boot sweep was just now.
        let mut poll = interval(self.runner.config.poll_interval);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hints: Option<Hints> = None;
        let mut wakeups: Option<Wakeups> = None;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                Some(finished) = self.passes.join_next_with_id() => {
                    self.finished(finished);
                    self.claim_due().await;
                }
                Some(swept) = self.sweeps.join_next() => self.swept(swept),
                _ = sweep.tick() => self.start_sweep(),
                woken = next_of(&mut wakeups) => match woken {
                    Some(_) => self.claim_due().await,
                    None => wakeups = None,
                },
                hint = next_of(&mut hints) => match hint {
                    Some(resource) => {
                        self.lanes.enqueue_hint(resource);
                        self.start_passes();
                    }
                    None => hints = None,
                },
                _ = poll.tick() => {
                    self.subscribe(&mut hints, &mut wakeups).await;
                    self.claim_due().await;
                }
            }
        }
    }

    /// Lets passes under way finish, then ends whatever is left. Their leases end by themselves.
    async fn finish(mut self, within: Duration) {
        let everything = async { while self.passes.join_next().await.is_some() {} };
        if tokio::time::timeout(within, everything).await.is_err() {
            tracing::warn!(
                left = self.passes.len(),
                "passes did not finish in time and were ended"
            );
        }
        self.passes.shutdown().await;
        self.sweeps.shutdown().await;
        self.relay.shutdown().await;
    }
}

/// Where work comes from.
impl AtWork<'_> {
    /// Streams of hints end when a connection does; they are only hints, so they are simply asked for again.
    async fn subscribe(&self, hints: &mut Option<Hints>, wakeups: &mut Option<Wakeups>) {
        let ports = self.runner.reconciler.ports();
        let deadlines = self.runner.reconciler.config().deadlines;
        if hints.is_none() {
            let asked = ports.cluster.hints();
            *hints = call(PortName::Cluster, Kind::Read, deadlines.cluster_read, asked).await.ok();
        }
        if wakeups.is_none() {
            let asked = ports.schedule.wakeups();
            *wakeups = call(PortName::Schedule, Kind::Read, deadlines.store, asked).await.ok();
        }
    }

    /// Claims what is due for every free worker.
    async fn claim_due(&mut self) {
        for lane in [Lane::Teardown, Lane::Converge] {
            let Some(limit) = self.lanes.free(lane) else { continue };
            let asked = Instant::now();
            let config = self.runner.reconciler.config();
            let request = ClaimRequest {
                worker: config.worker.clone(),
                target: ClaimTarget::Due { lane, limit },
                lease_for: config.lease,
            };
            let claimed = self.runner.reconciler.ports().schedule.claim(&request);
            let claimed =
                call(PortName::Schedule, Kind::Write, config.deadlines.store, claimed).await;
            match claimed {
                Ok(leases) => {
                    for lease in leases {
                        self.start_claimed(lane, lease, asked);
                    }
                }
                Err(error) => {
                    tracing::warn!(error = in_words(&error), "due work could not be claimed");
                }
            }
        }
    }

    fn start_claimed(&mut self, lane: Lane, lease: Lease, asked: Instant) {
        let job = Job::in_lane(lane, lease.resource);
        self.lanes.started(job);
        let reconciler = Arc::clone(&self.runner.reconciler);
        let pass = self.passes.spawn(async move { reconciler.work(lease, asked).await });
        self.jobs.insert(pass.id(), job);
    }

    fn start_passes(&mut self) {
        while let Some(job) = self.lanes.next() {
            let reconciler = Arc::clone(&self.runner.reconciler);
            let pass = self.passes.spawn(async move { reconciler.reconcile(job.resource()).await });
            self.jobs.insert(pass.id(), job);
        }
    }

    fn start_sweep(&mut self) {
        if self.sweeps.is_empty() {
            let sweeper = Arc::clone(&self.runner.sweeper);
            self.sweeps.spawn(async move { sweeper.sweep().await });
        }
    }
}

/// What becomes of work.
impl AtWork<'_> {
    fn finished(&mut self, finished: Result<(task::Id, Finished), JoinError>) {
        let id = match &finished {
            Ok((id, _)) => *id,
            Err(panic) => panic.id(),
        };
        let Some(job) = self.jobs.remove(&id) else { return };
        self.lanes.finished(job);
        let resource = job.resource();
        match finished {
            Ok((_, Ok(_))) => {}
            Ok((_, Err(error))) => {
                tracing::warn!(%resource, reason = error.reason(), error = in_words(&error), "a pass failed");
            }
            // Its lease ends by itself, and the next pass looks at everything anew.
            Err(panic) => tracing::error!(%resource, %panic, "a pass broke down"),
        }
        self.start_passes();
    }

    fn swept(&mut self, swept: Result<Result<(Vec<Work>, SweepReport), Error>, JoinError>) {
        match swept {
            Ok(swept) => {
                self.runner.probe.note(&swept);
                match swept {
                    Ok((work, _)) => self.enqueue(work),
                    Err(error) => {
                        tracing::error!(
                            error = in_words(&error),
                            "provisioning broker reconcile tick failed"
                        );
                    }
                }
            }
            Err(panic) => {
                tracing::error!(%panic, "provisioning broker reconcile tick failed");
                self.runner.probe.note_breakdown(&panic.to_string());
            }
        }
    }
}

/// The next item of a stream, or for ever nothing if there is none.
async fn next_of<S: futures_core::Stream + Unpin>(stream: &mut Option<S>) -> Option<S::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// Delivers as long as there is something to deliver, then waits.
async fn relay_loop(relay: Relay, pause: Duration) {
    loop {
        match relay.deliver_batch().await {
            Ok(report) if report.delivered > 0 => {}
            Ok(_) => tokio::time::sleep(pause).await,
            Err(error) => {
                tracing::warn!(error = in_words(&error), "events could not be relayed");
                tokio::time::sleep(pause).await;
            }
        }
    }
}
