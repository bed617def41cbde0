//! The runner: keeps a replica at work until it is told to stop, and owns every task that it starts.
//!
//! Work comes from three sides. What is due is claimed; that is how declarations, deletions and retries come
//! along, at once when the store sends a wake-up. What changed on the cluster is hinted at. What neither told
//! is found by the sweep.

mod run_loop;
mod check;
mod background;
mod hinted;
mod lanes;
mod probe;
mod purge;

use std::future::Future;
use std::sync::Arc;

use broker_domain::ProvisionedResourceId;
use broker_ports::Cluster;
use tokio::task::JoinSet;

pub use check::StartError;
pub use probe::{Probe, ProbeFailure};
use run_loop::RunLoop;

use crate::config::{BrokerConfig, ConfigError};
use crate::emit::Relay;
use crate::error::Error;
use crate::reconcile::Reconciler;
use crate::sweep::{SweepReport, Sweeper, Work};
use crate::telemetry;
use purge::Purge;

/// Keeps a replica at work.
pub struct Runner {
    reconciler: Arc<Reconciler>,
    sweeper: Arc<Sweeper>,
    relay: Relay,
    purge: Option<Purge>,
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
    ResourceError {
        /// The first such resource.
        resource: ProvisionedResourceId,
        /// Its reason.
        reason: &'static str,
        /// In words.
        message: String,
    },
}

impl Runner {
    /// A runner over what it runs, with the configuration of the reconciler.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration cannot work.
    pub fn new(
        reconciler: Reconciler,
        sweeper: Sweeper,
        relay: Relay,
    ) -> Result<Self, ConfigError> {
        let config = reconciler.config();
        config.validate()?;
        let purge = config.retention.map(|retention| Purge {
            repository: reconciler.ports().repository.clone(),
            outbox: relay.outbox().clone(),
            retention,
        });
        let probe = Probe::new(config.sweep_interval);
        let (reconciler, sweeper) = (Arc::new(reconciler), Arc::new(sweeper));
        Ok(Self { reconciler, sweeper, relay, purge, probe })
    }

    /// The configuration that it was made with.
    pub fn config(&self) -> &BrokerConfig {
        self.reconciler.config()
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
        if let Some((resource, trouble)) = report.errors.first_key_value()
            && self.config().strict
        {
            return Err(BootError::ResourceError {
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
    /// [`BootError`]; once it works it does not fail. Call it again to try again.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), BootError> {
        telemetry::describe_metrics();
        // The watches begin before the boot sweep, which then reads what they list anyway.
        let mut watches = JoinSet::new();
        let cluster = Arc::clone(self.reconciler.ports().cluster.port());
        watches.spawn(async move { cluster.watch().await });
        let ran = Box::pin(self.boot_and_work(stop)).await;
        watches.shutdown().await;
        ran
    }

    async fn boot_and_work(&self, stop: impl Future<Output = ()>) -> Result<(), BootError> {
        // Before the boot sweep: what changes after the sweep has read it arrives as a hint.
        let hints = self.reconciler.ports().cluster.read(Cluster::hints).await.ok();
        let (work, _) = self.boot().await?;
        let mut run_loop = RunLoop::new(self);
        run_loop.enqueue(work);
        run_loop.until(stop, hints).await;
        run_loop.finish(self.config().stop_within).await;
        Ok(())
    }
}
