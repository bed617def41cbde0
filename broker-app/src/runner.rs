//! The runner: keeps a replica at work until it is told to stop, and owns every task that it starts.
//!
//! Work comes from three sides. What is due is claimed; that is how declarations, deletions and retries come
//! along, at once when the store sends a wake-up. What changed on the cluster is hinted at. What neither told
//! is found by the sweep.

mod at_work;
mod chores;
mod hinted;
mod lanes;
mod probe;
mod purge;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;

use at_work::AtWork;
pub use probe::{Probe, ProbeFailure};

use crate::emit::Relay;
use crate::error::Error;
use crate::reconcile::Reconciler;
use crate::sweep::{SweepReport, Sweeper, Work};
use crate::telemetry;
use purge::Purge;

/// Configuration of the runner.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// How often everything is looked at.
    pub sweep_interval: Duration,
    /// How often due work is asked for when nothing woke the runner up.
    pub poll_interval: Duration,
    /// How many passes run at once in each lane.
    pub workers_per_lane: usize,
    /// Refuse to start if the boot sweep cannot examine one of the resources, and not only if store or cluster fail. The
    /// sweep reads each resource, its blueprint and its composite resource. It runs no pass, so a resource whose pass
    /// will fail does not prevent the start.
    pub strict: bool,
    /// How long passes that are under way may take to finish when the runner is stopped.
    pub stop_within: Duration,
    /// For how long rows that are Deleted and events that were delivered are kept. `None` keeps them for ever:
    /// nothing is removed that nobody decided to remove. Longer than a lease.
    pub retention: Option<Duration>,
}

/// Keeps a replica at work.
pub struct Runner {
    reconciler: Arc<Reconciler>,
    sweeper: Arc<Sweeper>,
    relay: Relay,
    purge: Option<Purge>,
    config: RunnerConfig,
    probe: Probe,
}

/// A configuration that cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A time that has to be waited for is zero.
    #[error("{field} is zero; give a time")]
    Zero {
        /// Which one.
        field: &'static str,
    },
    /// A pass would have no time at all.
    #[error("lease_margin is {margin:?}, and the lease lasts {lease:?}; give a shorter margin")]
    NoTimeToAct {
        /// The margin.
        margin: Duration,
        /// The lease.
        lease: Duration,
    },
    /// Another replica could send an event while this one delivers it.
    #[error(
        "an event is claimed for {claim_for:?}; give at least {shortest:?}, the time that its delivery can take"
    )]
    ClaimTooShort {
        /// How long a claim lasts.
        claim_for: Duration,
        /// The deadlines of a delivery and of two calls of the store.
        shortest: Duration,
    },
    /// A row could be purged while a request on its behalf is still under way, and what that leaves behind would
    /// be nobody's.
    #[error(
        "retention is {retention:?}; give more than {longest:?}, the time that an act can take"
    )]
    RetentionTooShort {
        /// The retention.
        retention: Duration,
        /// The longest time that an act can take.
        longest: Duration,
    },
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

impl Runner {
    /// A runner over what it runs.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration cannot work.
    pub fn new(
        reconciler: Reconciler,
        sweeper: Sweeper,
        relay: Relay,
        config: RunnerConfig,
    ) -> Result<Self, ConfigError> {
        config.check(&reconciler)?;
        let purge = config.retention.map(|retention| Purge {
            repository: reconciler.ports().repository.clone(),
            outbox: relay.outbox().clone(),
            retention,
        });
        let probe = Probe::new(config.sweep_interval);
        let (reconciler, sweeper) = (Arc::new(reconciler), Arc::new(sweeper));
        Ok(Self { reconciler, sweeper, relay, purge, config, probe })
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
        self.probe.swept(&swept);
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
        telemetry::describe_metrics();
        let (work, _) = self.boot().await?;
        let mut at_work = AtWork::new(&self);
        at_work.enqueue(work);
        at_work.until(stop).await;
        at_work.finish(self.config.stop_within).await;
        Ok(())
    }
}

impl RunnerConfig {
    fn check(&self, reconciler: &Reconciler) -> Result<(), ConfigError> {
        let Self {
            sweep_interval,
            poll_interval,
            workers_per_lane: _,
            strict: _,
            stop_within: _,
            retention,
        } = self;
        for (field, time) in [("sweep_interval", sweep_interval), ("poll_interval", poll_interval)]
        {
            if time.is_zero() {
                return Err(ConfigError::Zero { field });
            }
        }
        let (lease, margin) = (reconciler.config().lease, reconciler.config().lease_margin);
        if margin >= lease {
            return Err(ConfigError::NoTimeToAct { margin, lease });
        }
        // An act ends before its lease does.
        match *retention {
            Some(retention) if retention <= lease => {
                Err(ConfigError::RetentionTooShort { retention, longest: lease })
            }
            Some(_) | None => Ok(()),
        }
    }
}
