//! The broker as a host holds it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker_app::render::ApiUrl;
use broker_app::{BootError, BrokerConfig, ConfigError, Probe, Runner, Service, StartError};

use crate::builder::{BrokerBuilder, Check, Failure, Missing, Parts};

/// A broker that is wired. Clones are handles on the same one.
#[derive(Clone)]
pub struct Broker {
    service: Service,
    runner: Arc<Runner>,
    start: Arc<Start>,
}

/// The checks before the first sweep. They are made until they pass once.
struct Start {
    /// Looks whether this release can run on the store as it is.
    store: Option<Check>,
    passed: AtomicBool,
}

/// Why a broker was not built, or why it does not run. Build or run it again to try again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// A start check failed, or the configuration cannot work.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store does not answer, or this release cannot run on its schema.
    #[error("the store cannot be used")]
    Store(#[source] Failure),
    /// The first sweep failed.
    #[error(transparent)]
    Boot(#[from] BootError),
}

impl From<ConfigError> for BrokerError {
    fn from(error: ConfigError) -> Self {
        Self::Start(error.into())
    }
}

impl Broker {
    /// Begins with the defaults of [`BrokerConfig`], for agents that enrol at this URL.
    pub fn builder(api_url: ApiUrl) -> BrokerBuilder<Missing, Missing> {
        Self::configured(BrokerConfig::new(api_url))
    }

    /// Begins with a configuration.
    pub fn configured(config: BrokerConfig) -> BrokerBuilder<Missing, Missing> {
        BrokerBuilder::new(config)
    }

    /// A broker that needs nothing, and the platform in memory that it works on: a store, a cluster with Crossplane, a
    /// mesh, and one blueprint to declare a machine from. While the broker runs, the platform lives beside it.
    ///
    /// # Panics
    ///
    /// Never: its configuration and its platform are fixed.
    #[cfg(feature = "memory")]
    pub fn in_memory() -> (Self, broker_memory::MemoryPlatform) {
        let platform = broker_memory::MemoryPlatform::new();
        let api_url = ApiUrl::new("https://mesh.example.org").expect("a URL");
        let built = Self::builder(api_url).ports(platform.living_ports()).build_unchecked();
        (built.expect("the defaults work"), platform)
    }

    pub(crate) fn new(parts: Parts, store: Option<Check>) -> Result<Self, ConfigError> {
        let Parts { service, reconciler, sweeper, relay, .. } = parts;
        let runner = Runner::new(reconciler, sweeper, relay)?;
        let service = service.with_probe(runner.probe());
        let start = Start { store, passed: AtomicBool::new(false) };
        Ok(Self { service, runner: Arc::new(runner), start: Arc::new(start) })
    }

    /// Makes the start checks, unless they passed before.
    pub(crate) async fn check(&self) -> Result<(), BrokerError> {
        if self.start.passed.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(store) = &self.start.store {
            let within = self.runner.config().deadlines.store;
            let answer = tokio::time::timeout(within, store()).await;
            let silent = |_| Failure::from(format!("no answer within {within:?}"));
            answer.map_err(silent).flatten().map_err(BrokerError::Store)?;
        }
        self.runner.check().await?;
        self.start.passed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What callers and operators use. It works whether this process runs the broker or another one does.
    pub const fn service(&self) -> &Service {
        &self.service
    }

    /// The readiness probe of this replica.
    pub fn probe(&self) -> Probe {
        self.runner.probe()
    }

    /// Boots, works until `shutdown` is ready, and ends: passes under way may finish within
    /// [`BrokerConfig::stop_within`], and no task is left when this returns.
    ///
    /// A broker of [`build_unchecked`](BrokerBuilder::build_unchecked) makes its start checks first.
    ///
    /// # Errors
    ///
    /// [`BrokerError`] when a start check or the first sweep fails. Call it again to try again; once it works it does not
    /// fail.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<(), BrokerError> {
        self.check().await?;
        Ok(self.runner.run(shutdown).await?)
    }
}
