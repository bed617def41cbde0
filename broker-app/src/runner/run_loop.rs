//! The run loop: its lanes, its tasks, and the `select!` that waits for the next event.

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

type Finished = Result<PassResult, Error>;

type Swept = Result<(Vec<Work>, SweepReport), Error>;

pub(super) struct RunLoop<'a> {
    runner: &'a Runner,
    lanes: Lanes,
    passes: JoinSet<Finished>,
    /// The job of each pass task, because a panicked task cannot report it. At most one entry per worker.
    jobs: Vec<(task::Id, Job)>,
    sweeps: JoinSet<Swept>,
    /// Back-off of hints after failed passes.
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
            hinted: Hinted::new(runner.config().backoff),
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
                // other arm: ticks come once per interval, and at most one sweep runs. A tick or a finished pass
                // starts a sweep, so each makes the second arm ready at most once.
                _ = sweep.tick() => self.start_sweep(),
                Some(swept) = self.sweeps.join_next() => self.swept(swept),
                // Finished passes may starve the arms below. That is harmless: a claim follows each pass, which
                // serves wake-ups and polls, and a sweep replaces unread hints.
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
                () = sleep_until_due(self.hinted.next()) => self.follow_due_hints(),
                _ = poll.tick() => {
                    self.subscribe(&mut hints, &mut wakeups).await;
                    self.claim_due().await;
                }
            }
        }
    }

    /// Lets running passes finish, then aborts the rest. Their leases expire.
    pub(super) async fn finish(mut self, within: Duration) {
        let everything = async { while self.passes.join_next().await.is_some() {} };
        if tokio::time::timeout(within, everything).await.is_err() {
            tracing::warn!(
                left = self.passes.len(),
                "passes did not finish in time and were aborted"
            );
        }
        self.passes.shutdown().await;
        self.sweeps.shutdown().await;
        self.background.end().await;
    }
}

/// Sources of work.
impl RunLoop<'_> {
    /// Subscribes again after a stream has ended. Hints may be lost meanwhile; the sweep covers them.
    async fn subscribe(&self, hints: &mut Option<Hints>, wakeups: &mut Option<Wakeups>) {
        let ports = self.runner.reconciler.ports();
        if hints.is_none() {
            *hints = ports.cluster.read(Cluster::hints).await.ok();
        }
        if wakeups.is_none() {
            *wakeups = ports.schedule.read(Schedule::wakeups).await.ok();
        }
    }

    async fn claim_due(&mut self) {
        if self.runner.config().mode == Mode::DryRun {
            // A lease would block a live replica; in a dry run, sweeps supply the work.
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

    /// Claimed leases, and when the claim was sent: a pass counts its lease from then.
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

    fn follow_due_hints(&mut self) {
        for resource in self.hinted.take_due() {
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

/// Results of work.
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
                    // Losses exceed the budget: sweep now to count them, instead of at the next interval.
                    self.start_sweep();
                }
                self.runner.probe.passed(resource, &outcome);
            }
            // The lease expires, and the next pass reads everything again.
            Err(_panic) => {
                // Without the payload, which may quote a secret; the process's panic hook reports the location.
                tracing::error!(%resource, "a pass panicked");
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
                        // The cluster answered this sweep, so reading its identity again is cheap.
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
                    error = "the sweep panicked",
                    "provisioning broker reconcile tick failed"
                );
                self.runner.probe.sweep_broke_down();
            }
        }
    }
}

/// Waits until `when`; without one, never resolves.
async fn sleep_until_due(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// The next item of a stream; without a stream, never resolves.
async fn next_of<S: futures_core::Stream + Unpin>(stream: &mut Option<S>) -> Option<S::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
