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
use super::hint_backoff::HintBackoff;
use super::lanes::{Job, Lanes};
use crate::decide::{EarlyExit, Mode};
use crate::error::{Error, error_message};
use crate::reconcile::PassResult;
use crate::sweep::{SweepReport, Work};
use crate::telemetry;

type PassOutcome = Result<PassResult, Error>;

type SweepOutcome = Result<(Vec<Work>, SweepReport), Error>;

pub(super) struct RunLoop<'a> {
    runner: &'a Runner,
    lanes: Lanes,
    passes: JoinSet<PassOutcome>,
    /// The job of each pass task, because a panicked task cannot report it. At most one entry per worker.
    jobs: Vec<(task::Id, Job)>,
    sweeps: JoinSet<SweepOutcome>,
    /// Back-off of hints after failed passes.
    hint_backoff: HintBackoff,
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
            hint_backoff: HintBackoff::new(runner.config().backoff),
            background: BackgroundTasks::start(runner),
        }
    }

    pub(super) fn enqueue(&mut self, work: Vec<Work>) {
        for Work { resource, lane, .. } in work {
            self.lanes.enqueue(lane, resource);
        }
        self.start_passes();
    }

    pub(super) async fn run_until(
        &mut self,
        stop: impl Future<Output = ()>,
        mut hints: Option<Hints>,
    ) {
        let mut stop = pin!(stop);
        let mut sweep = interval(self.runner.config().sweep_interval);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweep.reset(); // The boot sweep has just finished.
        let mut poll = interval(self.runner.config().poll_interval);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wakeups: Option<Wakeups> = None;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                // Sweeps come before finished passes, because passes may finish without a pause. Sweeps starve no other
                // arm: ticks come once per interval, and at most one sweep runs.
                _ = sweep.tick() => self.start_sweep(),
                Some(swept) = self.sweeps.join_next() => self.swept(swept),
                // Finished passes may starve the arms below. That is harmless: each finished pass claims due work, as
                // wake-ups and polls do, and a sweep replaces unread hints.
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
                () = sleep_until_due(self.hint_backoff.next_due()) => self.follow_due_hints(),
                _ = poll.tick() => {
                    self.subscribe(&mut hints, &mut wakeups).await;
                    self.claim_due().await;
                }
            }
        }
    }

    /// Lets running passes finish, then aborts the rest. Their leases expire.
    pub(super) async fn finish(mut self, within: Duration) {
        let all_finished = async { while self.passes.join_next().await.is_some() {} };
        if tokio::time::timeout(within, all_finished).await.is_err() {
            tracing::warn!(
                left = self.passes.len(),
                "passes did not finish in time and were aborted"
            );
        }
        self.passes.shutdown().await;
        self.sweeps.shutdown().await;
        self.background.stop().await;
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
            // A lease would block a live replica. In a dry run, sweeps supply the work.
            return;
        }
        for lane in [Lane::Teardown, Lane::Converge] {
            let Some(limit) = self.lanes.free_workers(lane) else { continue };
            let claimed = self.claim(ClaimTarget::Due { lane, limit }).await;
            self.runner.probe.claimed(claimed.as_ref().map(|_| ()));
            match claimed {
                Ok((leases, claim_sent_at)) => {
                    for lease in leases {
                        self.start_claimed(lane, lease, claim_sent_at);
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error_message(&error), "due work could not be claimed");
                }
            }
        }
    }

    /// Returns the claimed leases and the time of the claim, from which a pass counts its lease.
    async fn claim(&self, target: ClaimTarget) -> Result<(Vec<Lease>, Instant), Error> {
        let reconciler = &self.runner.reconciler;
        let request = reconciler.claim_request(target).await?;
        let claim_sent_at = Instant::now();
        Ok((reconciler.ports().schedule.write(|it| it.claim(&request)).await?, claim_sent_at))
    }

    fn start_claimed(&mut self, lane: Lane, lease: Lease, claim_sent_at: Instant) {
        let job = Job::in_lane(lane, lease.resource);
        self.lanes.mark_started(job);
        let reconciler = Arc::clone(&self.runner.reconciler);
        let pass =
            self.passes.spawn(async move { reconciler.run_claimed(lease, claim_sent_at).await });
        self.jobs.push((pass.id(), job));
    }

    fn start_passes(&mut self) {
        while let Some(job) = self.lanes.start_next() {
            if job.is_hinted() && !self.hint_backoff.may_follow(job.resource()) {
                self.lanes.mark_finished(job);
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
        for resource in self.hint_backoff.take_due() {
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
    fn finished(&mut self, finished: Result<(task::Id, PassOutcome), JoinError>) {
        let id = match &finished {
            Ok((id, _)) => *id,
            Err(panic) => panic.id(),
        };
        let Some(index) = self.jobs.iter().position(|(task, _)| *task == id) else { return };
        let (_, job) = self.jobs.swap_remove(index);
        self.lanes.mark_finished(job);
        let resource = job.resource();
        match &finished {
            Ok((_, Ok(PassResult::NotClaimed))) => {}
            Ok((_, Ok(PassResult::Completed { .. }))) => self.hint_backoff.record_success(resource),
            Ok((_, Ok(PassResult::EndedEarly(_)) | Err(_))) | Err(_) => {
                self.hint_backoff.record_failure(resource, job.cause());
            }
        }
        match finished {
            Ok((_, outcome)) => {
                if let Err(error) = &outcome {
                    tracing::warn!(%resource, reason = error.reason(), error = error_message(error), "a pass failed");
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
                telemetry::pass_panicked();
                self.runner.probe.panicked(resource);
            }
        }
        self.start_passes();
    }

    fn swept(&mut self, swept: Result<SweepOutcome, JoinError>) {
        match swept {
            Ok(swept) => {
                self.runner.probe.swept(&swept);
                self.hint_backoff.retain_failed(|resource| self.runner.probe.has_failed(resource));
                match swept {
                    Ok((work, _)) => {
                        // The cluster answered this sweep, so reading its identity again is cheap.
                        self.runner.reconciler.refresh_home();
                        self.enqueue(work);
                    }
                    Err(error) => {
                        tracing::error!(
                            error = error_message(&error),
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
                self.runner.probe.sweep_panicked();
            }
        }
    }
}

/// Waits until `when`; never resolves if `when` is `None`.
async fn sleep_until_due(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// The next item of a stream; never resolves if there is none.
async fn next_of<S: futures_core::Stream + Unpin>(stream: &mut Option<S>) -> Option<S::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
