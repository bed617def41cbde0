//! A runner at work: its lanes, the tasks that it owns, and the loop that waits for whatever comes next.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use broker_ports::{ClaimTarget, Cluster, Hints, Lane, Lease, Schedule, Wakeups};
use futures_util::StreamExt;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Runner;
use super::background::BackgroundTasks;
use super::hinted::Hinted;
use super::lanes::{Job, Lanes};
use crate::decide::{EarlyExit, Mode};
use crate::error::{Error, in_words};
use crate::reconcile::PassResult;
use crate::sweep::{SweepReport, Work};
use crate::telemetry;

/// What a finished pass tells the runner.
type Finished = Result<PassResult, Error>;

/// What a finished sweep tells the runner.
type Swept = Result<(Vec<Work>, SweepReport), Error>;

/// A runner at work.
pub(super) struct RunLoop<'a> {
    runner: &'a Runner,
    lanes: Lanes,
    passes: JoinSet<Finished>,
    /// Which job a task does: a task that breaks down cannot say so itself. As many as there are workers.
    jobs: Vec<(task::Id, Job)>,
    sweeps: JoinSet<Swept>,
    /// Which hints wait because the last pass failed.
    hinted: Hinted,
    background: BackgroundTasks,
}

impl<'a> RunLoop<'a> {
    pub(super) fn new(runner: &'a Runner) -> Self {
        Self {
            runner,
            lanes: Lanes::new(runner.config().workers_per_lane),
            passes: JoinSet::new(),
            jobs: Vec::new(),
            sweeps: JoinSet::new(),
            hinted: Hinted::default(),
            background: BackgroundTasks::start(runner),
        }
    }

    pub(super) fn enqueue(&mut self, work: Vec<Work>) {
        for Work { resource, lane, .. } in work {
            self.lanes.enqueue(lane, resource);
        }
        self.start_passes();
    }

    pub(super) async fn until(&mut self, stop: impl Future<Output = ()>, mut hints: Option<Hints>) {
        let mut stop = pin!(stop);
        let mut sweep = interval(self.runner.config().sweep_interval);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweep.reset(); // The boot sweep was just now.
        let mut poll = interval(self.runner.config().poll_interval);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wakeups: Option<Wakeups> = None;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                // Sweeps come before finished passes, which may follow one another without a pause. They starve no
                // other arm: a tick comes once per interval, and at most one sweep runs. A sweep starts with a tick
                // or with a finished pass, so each of those makes the second arm ready at most once.
                _ = sweep.tick() => self.start_sweep(),
                Some(swept) = self.sweeps.join_next() => self.swept(swept),
                // Finished passes may starve the arms below. Each pass is followed by a claim, which is what wake-ups
                // and polls ask for, and a sweep finds what an unread hint is about.
                Some(finished) = self.passes.join_next_with_id() => {
                    self.finished(finished);
                    self.claim_due().await;
                }
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
                () = ripe(self.hinted.next()) => self.follow_ripe_hints(),
                _ = poll.tick() => {
                    self.subscribe(&mut hints, &mut wakeups).await;
                    self.claim_due().await;
                }
            }
        }
    }

    /// Lets passes under way finish, then ends whatever is left. Their leases end by themselves.
    pub(super) async fn finish(mut self, within: Duration) {
        let everything = async { while self.passes.join_next().await.is_some() {} };
        if tokio::time::timeout(within, everything).await.is_err() {
            tracing::warn!(
                left = self.passes.len(),
                "passes did not finish in time and were ended"
            );
        }
        self.passes.shutdown().await;
        self.sweeps.shutdown().await;
        self.background.end().await;
    }
}

/// Where work comes from.
impl RunLoop<'_> {
    /// Streams of hints end when a connection does; they are only hints, so they are simply asked for again.
    async fn subscribe(&self, hints: &mut Option<Hints>, wakeups: &mut Option<Wakeups>) {
        let ports = self.runner.reconciler.ports();
        if hints.is_none() {
            *hints = ports.cluster.read(Cluster::hints).await.ok();
        }
        if wakeups.is_none() {
            *wakeups = ports.schedule.read(Schedule::wakeups).await.ok();
        }
    }

    /// Claims what is due for every free worker.
    async fn claim_due(&mut self) {
        if self.runner.config().mode == Mode::DryRun {
            // A lease would keep a replica that may change something from its work; sweeps find what to look at.
            return;
        }
        for lane in [Lane::Teardown, Lane::Converge] {
            let Some(limit) = self.lanes.free(lane) else { continue };
            let claimed = self.claim(ClaimTarget::Due { lane, limit }).await;
            self.runner.probe.claimed(claimed.as_ref().map(|_| ()));
            match claimed {
                Ok((leases, asked)) => {
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

    /// Leases, and when they were asked for: a worker counts from before it asked.
    async fn claim(&self, target: ClaimTarget) -> Result<(Vec<Lease>, Instant), Error> {
        let reconciler = &self.runner.reconciler;
        let request = reconciler.claim_request(target).await?;
        let asked = Instant::now();
        Ok((reconciler.ports().schedule.write(|it| it.claim(&request)).await?, asked))
    }

    fn start_claimed(&mut self, lane: Lane, lease: Lease, asked: Instant) {
        let job = Job::in_lane(lane, lease.resource);
        self.lanes.started(job);
        let reconciler = Arc::clone(&self.runner.reconciler);
        let pass = self.passes.spawn(async move { reconciler.work(lease, asked).await });
        self.jobs.push((pass.id(), job));
    }

    fn start_passes(&mut self) {
        while let Some(job) = self.lanes.next() {
            if job.is_hinted() && !self.hinted.may_follow(job.resource()) {
                self.lanes.finished(job);
                continue;
            }
            let reconciler = Arc::clone(&self.runner.reconciler);
            let pass = self.passes.spawn(async move {
                if job.is_hinted() {
                    reconciler.follow_hint(job.resource()).await
                } else {
                    reconciler.reconcile(job.resource()).await
                }
            });
            self.jobs.push((pass.id(), job));
        }
    }

    fn follow_ripe_hints(&mut self) {
        for resource in self.hinted.take_ripe() {
            self.lanes.enqueue_hint(resource);
        }
        self.start_passes();
    }

    fn start_sweep(&mut self) {
        if self.sweeps.is_empty() {
            let sweeper = Arc::clone(&self.runner.sweeper);
            let within = self.runner.config().sweep_interval;
            self.sweeps.spawn(async move { sweeper.sweep_within(within).await });
        }
    }
}

/// What becomes of work.
impl RunLoop<'_> {
    fn finished(&mut self, finished: Result<(task::Id, Finished), JoinError>) {
        let id = match &finished {
            Ok((id, _)) => *id,
            Err(panic) => panic.id(),
        };
        let Some(place) = self.jobs.iter().position(|(task, _)| *task == id) else { return };
        let (_, job) = self.jobs.swap_remove(place);
        self.lanes.finished(job);
        let resource = job.resource();
        match &finished {
            Ok((_, Ok(PassResult::NotClaimed))) => {}
            Ok((_, Ok(PassResult::Completed { .. }))) => self.hinted.passed(resource),
            Ok((_, Ok(PassResult::EndedEarly(_)) | Err(_))) | Err(_) => {
                self.hinted.failed(resource, job.cause());
            }
        }
        match finished {
            Ok((_, outcome)) => {
                if let Err(error) = &outcome {
                    tracing::warn!(%resource, reason = error.reason(), error = in_words(error), "a pass failed");
                }
                if let Ok(PassResult::EndedEarly(EarlyExit::OverBudget)) = &outcome {
                    // More is lost than the budget allows: count now what is lost, not at the next interval.
                    self.start_sweep();
                }
                self.runner.probe.passed(resource, &outcome);
            }
            // Its lease ends by itself, and the next pass looks at everything anew.
            Err(_panic) => {
                // Without the payload, which may quote a secret; the process's panic hook says where it happened.
                tracing::error!(%resource, "a pass broke down");
                telemetry::panicked();
                self.runner.probe.panicked(resource);
            }
        }
        self.start_passes();
    }

    fn swept(&mut self, swept: Result<Swept, JoinError>) {
        match swept {
            Ok(swept) => {
                self.runner.probe.swept(&swept);
                self.hinted.forget_unless(|resource| self.runner.probe.has_failed(resource));
                match swept {
                    Ok((work, _)) => {
                        // The cluster answered a moment ago, so asking it again which one it is costs little.
                        self.runner.reconciler.refresh_home();
                        self.enqueue(work);
                    }
                    Err(error) => {
                        tracing::error!(
                            error = in_words(&error),
                            "provisioning broker reconcile tick failed"
                        );
                    }
                }
            }
            Err(_panic) => {
                tracing::error!(
                    error = "the sweep broke down",
                    "provisioning broker reconcile tick failed"
                );
                self.runner.probe.sweep_broke_down();
            }
        }
    }
}

/// Waits until then, or for ever if there is nothing to wait for.
async fn ripe(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// The next item of a stream, or for ever nothing if there is none.
async fn next_of<S: futures_core::Stream + Unpin>(stream: &mut Option<S>) -> Option<S::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
