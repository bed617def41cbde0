//! Proxies in front of both servers, which can delay the requests of one replica.

use std::time::Duration;

use broker_app::Reconciler;
use broker_ports::Deadlines;
use broker_tests::real::{LEASE, RealWorld, config, wire};
use broker_tests::{HttpProxy, PgProxy};
use sqlx::postgres::PgPoolOptions;

use super::host::{Host, HostConfig};

/// A proxy in front of each server.
pub(crate) struct ServerProxies {
    pub(crate) postgres: PgProxy,
    pub(crate) kubernetes: HttpProxy,
}

impl ServerProxies {
    pub(crate) async fn start(world: &RealWorld) -> Self {
        let client = world.broker.client.clone();
        let kubernetes = HttpProxy::start(client).await;
        Self { postgres: PgProxy::start(world.database()).await, kubernetes }
    }

    /// Starts a replica in its own process. Its long intervals avoid optional requests.
    pub(crate) fn start_host(&self) -> Host {
        Host::start(&HostConfig {
            dsn: self.postgres.url(),
            kubeconfig: &self.kubernetes.kubeconfig(),
            lease: LEASE,
            sweep: Duration::from_secs(5),
            poll: Duration::from_millis(250),
        })
    }

    pub(crate) fn clear_rules(&self) {
        self.postgres.script().clear();
        self.kubernetes.script().clear();
    }

    pub(crate) async fn reconciler(&self, timeout: Duration) -> Reconciler {
        let mut config = config("behind-proxies");
        config.deadlines = Deadlines::each(timeout);
        let options = PgPoolOptions::new().max_connections(8).test_before_acquire(false);
        let pool = options.connect_lazy_with(self.postgres.options());
        let ports = wire(&pool, self.kubernetes.client().await, timeout).0.ports;
        Reconciler::new(ports, config)
    }
}
