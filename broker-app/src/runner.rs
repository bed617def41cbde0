//! The runner: runs passes, sweeps and the relay of one replica until it is stopped, and owns every task that it
//! starts.
//!
//! Work has three sources:
//!
//! - Claims return due work: declarations, deletions and retries. The store wakes the runner up when work becomes due.
//! - Hints report changes on the cluster.
//! - The sweep finds everything else.

mod run_loop;
mod check;
mod background;
mod hint_backoff;
mod lanes;
mod probe;
mod purge;

use std::future::Future;
use std::sync::Arc;

use broker_domain::{ErrorKind, ProvisionedResourceId};
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

/// Runs a replica.
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
    /// The store or the cluster did not answer.
    #[error("the boot sweep failed")]
    Infrastructure(#[source] Error),
    /// A resource has an error, and the configuration is strict.
    #[error("{resource} failed ({reason}) and the runner is strict: {message}")]
    ResourceError {
        /// The first such resource.
        resource: ProvisionedResourceId,
        /// The reason of its error.
        reason: &'static str,
        /// The message for people.
        message: String,
    },
}

impl BootError {
    /// The kind. A retry without a change helps only if it is [`ErrorKind::Unavailable`].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Infrastructure(error) => error.kind(),
            Self::ResourceError { .. } => ErrorKind::Internal,
        }
    }
}

impl Runner {
    /// Creates a runner with the reconciler's configuration.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration is invalid.
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

    /// The configuration.
    pub fn config(&self) -> &BrokerConfig {
        self.reconciler.config()
    }

    /// The readiness probe, named `provisioning-broker-reconcile`.
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// Runs the boot sweep. Fails if the store or the cluster does not answer, and in strict mode on any error.
    ///
    /// # Errors
    ///
    /// [`BootError`] with the cause.
    pub async fn boot(&self) -> Result<(Vec<Work>, SweepReport), BootError> {
        let swept = self.sweeper.sweep().await;
        self.probe.swept(&swept);
        let (work, report) = swept.map_err(BootError::Infrastructure)?;
        if let Some((resource, error)) = report.errors.first_key_value()
            && self.config().strict
        {
            return Err(BootError::ResourceError {
                resource: *resource,
                reason: error.reason,
                message: error.message.clone(),
            });
        }
        Ok((work, report))
    }

    /// Boots, runs until `stop` resolves, and shuts down. Running passes may finish within their time limit; no task
    /// outlives this call.
    ///
    /// # Errors
    ///
    /// [`BootError`]; after the boot it does not fail. To retry, call it again.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), BootError> {
        telemetry::describe_metrics();
        // The watches start first, because the boot sweep needs their lists anyway.
        let mut watches = JoinSet::new();
        let cluster = Arc::clone(self.reconciler.ports().cluster.without_deadline());
        watches.spawn(async move { cluster.watch().await });
        let ran = Box::pin(self.boot_and_loop(stop)).await;
        watches.shutdown().await;
        ran
    }

    async fn boot_and_loop(&self, stop: impl Future<Output = ()>) -> Result<(), BootError> {
        // Subscribes before the boot sweep, so that a change after the sweep's read arrives as a hint.
        let hints = self.reconciler.ports().cluster.read(Cluster::hints).await.ok();
        let (work, _) = self.boot().await?;
        let mut run_loop = RunLoop::new(self);
        run_loop.enqueue(work);
        run_loop.run_until(stop, hints).await;
        run_loop.finish(self.config().stop_within).await;
        Ok(())
    }
}
