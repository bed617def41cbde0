//! Both servers as one replica of the broker sees them, with somebody in between who can hold up what it asks for.

use std::sync::Arc;
use std::time::Duration;

use broker_app::{Broker, BrokerConfig, LogEventSink, Reconciler, Runner};
use broker_ports::{ReconcilerPorts, ServicePorts};
use broker_render::ApiUrl;
use broker_testkit::builders::worker;
use broker_tests::real::{Adapters, LEASE, RealWorld, deadlines_of, reconciler_config};
use broker_tests::{HttpProxy, PgProxy};
use sqlx::postgres::PgPoolOptions;

use super::host::{Host, Place};

/// A proxy in front of each server.
pub(crate) struct Between {
    pub(crate) postgres: PgProxy,
    pub(crate) kubernetes: HttpProxy,
}

impl Between {
    pub(crate) async fn of(world: &RealWorld) -> Self {
        let client = world.broker.client.clone();
        let kubernetes = HttpProxy::to(client).await;
        Self { postgres: PgProxy::to(world.database()).await, kubernetes }
    }

    /// A replica in a process of its own, which asks for little that it need not.
    pub(crate) fn host(&self) -> Host {
        Host::start(&Place {
            dsn: self.postgres.url(),
            kubeconfig: &self.kubernetes.kubeconfig(),
            lease: LEASE,
            sweep: Duration::from_secs(5),
            poll: Duration::from_millis(250),
        })
    }

    /// Lets everything through from now on.
    pub(crate) fn forget_rules(&self) {
        self.postgres.script().clear();
        self.kubernetes.script().clear();
    }

    /// What makes single passes, in this process.
    pub(crate) async fn reconciler(&self, patience: Duration) -> Reconciler {
        let mut config = reconciler_config("in-between");
        config.deadlines = deadlines_of(patience);
        Reconciler::new(ReconcilerPorts::from(&self.ports(patience).await), config)
    }

    /// What works by itself, in this process, with a sweep every so often.
    pub(crate) async fn runner(&self, patience: Duration, sweep: Duration) -> Runner {
        let api_url = ApiUrl::new("https://mesh.example.org").unwrap();
        let mut config = BrokerConfig::new(worker("in-between"), api_url, deadlines_of(patience));
        config.lease = LEASE;
        config.runner.sweep_interval = sweep;
        config.runner.poll_interval = Duration::from_millis(50);
        let ports = self.ports(patience).await;
        Broker::new(ports, Arc::new(LogEventSink), config).unwrap().runner
    }

    async fn ports(&self, patience: Duration) -> ServicePorts {
        let options = PgPoolOptions::new().max_connections(8).test_before_acquire(false);
        let pool = options.connect_lazy_with(self.postgres.options());
        Adapters::over(&pool, self.kubernetes.client().await, patience).0.of_service()
    }
}
