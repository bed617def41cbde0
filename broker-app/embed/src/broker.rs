//! [`Broker`]: the handle that the embedding service holds.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker_app::render::ApiUrl;
use broker_app::{
    BootError, BrokerConfig, ConfigError, ErrorKind, Probe, Runner, Service, StartError,
};

use crate::builder::{BoxError, BrokerBuilder, Missing, Parts, StoreCheck};

/// A broker with all its ports connected. Clones share one broker.
#[derive(Clone)]
pub struct Broker {
    service: Service,
    runner: Arc<Runner>,
    start_checks: Arc<StartChecks>,
}

/// The checks before the first sweep. They run until they have passed once.
struct StartChecks {
    /// Checks whether this release can run on the schema of the store.
    store: Option<StoreCheck>,
    passed: AtomicBool,
}

/// Why a broker could not be built or started. To retry, build or run it again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// A start check failed, or the configuration is invalid.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store does not answer, or this release cannot run on its schema.
    #[error("the store cannot be used")]
    Store {
        /// The kind.
        kind: ErrorKind,
        /// The error of the store.
        #[source]
        source: BoxError,
    },
    /// The first sweep failed.
    #[error(transparent)]
    Boot(#[from] BootError),
}

impl BrokerError {
    /// The kind. To retry without a change helps only if it is [`ErrorKind::Unavailable`]: otherwise the configuration, the
    /// schema or the cluster is the wrong one, or something is broken.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Start(error) => error.kind(),
            Self::Store { kind, .. } => *kind,
            Self::Boot(error) => error.kind(),
        }
    }
}

impl From<ConfigError> for BrokerError {
    fn from(error: ConfigError) -> Self {
        Self::Start(error.into())
    }
}

impl Broker {
    /// Starts a builder with the default [`BrokerConfig`]. Agents enrol at `api_url`.
    pub fn builder(api_url: ApiUrl) -> BrokerBuilder<Missing, Missing> {
        Self::configured(BrokerConfig::new(api_url))
    }

    /// Starts a builder with a configuration.
    pub fn configured(config: BrokerConfig) -> BrokerBuilder<Missing, Missing> {
        BrokerBuilder::new(config)
    }

    /// A broker on a platform in memory: a store, a cluster with Crossplane, a mesh, and one blueprint for a machine. The
    /// platform runs while the broker runs.
    ///
    /// # Panics
    ///
    /// Never: the configuration and the platform are fixed.
    #[cfg(feature = "memory")]
    pub fn in_memory() -> (Self, broker_memory::MemoryPlatform) {
        let platform = broker_memory::MemoryPlatform::new();
        let api_url = ApiUrl::new("https://mesh.example.org").expect("a valid URL");
        let built = Self::builder(api_url).ports(platform.living_ports()).build_unchecked();
        (built.expect("valid defaults"), platform)
    }

    pub(crate) fn new(parts: Parts, store: Option<StoreCheck>) -> Result<Self, ConfigError> {
        let Parts { service, reconciler, sweeper, relay, .. } = parts;
        let runner = Runner::new(reconciler, sweeper, relay)?;
        let service = service.with_probe(runner.probe());
        let start_checks = StartChecks { store, passed: AtomicBool::new(false) };
        Ok(Self { service, runner: Arc::new(runner), start_checks: Arc::new(start_checks) })
    }

    /// Runs the start checks, unless they have passed before.
    pub(crate) async fn check(&self) -> Result<(), BrokerError> {
        if self.start_checks.passed.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(store) = &self.start_checks.store {
            check_store(store, self.runner.config().deadlines.store).await?;
        }
        self.runner.check().await?;
        self.start_checks.passed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The methods for callers and operators. They also work if only another process runs the broker.
    pub const fn service(&self) -> &Service {
        &self.service
    }

    /// The readiness probe of this replica.
    pub fn probe(&self) -> Probe {
        self.runner.probe()
    }

    /// Runs a replica until `shutdown` resolves. Running passes may then finish within [`BrokerConfig::stop_within`]. No
    /// task outlives this call.
    ///
    /// A broker of [`build_unchecked`](BrokerBuilder::build_unchecked) runs its start checks first.
    ///
    /// # Errors
    ///
    /// [`BrokerError`] when a start check or the first sweep fails; after that it does not fail. To retry, call it again.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<(), BrokerError> {
        self.check().await?;
        Ok(self.runner.run(shutdown).await?)
    }
}

pub(crate) async fn check_store(check: &StoreCheck, deadline: Duration) -> Result<(), BrokerError> {
    tokio::time::timeout(deadline, check()).await.unwrap_or_else(|_| {
        let source = format!("no answer within {deadline:?}").into();
        Err(BrokerError::Store { kind: ErrorKind::Unavailable, source })
    })
}
