//! Both servers as one replica sees them, behind proxies that can delay its requests.

use std::time::Duration;

use broker_app::Reconciler;
use broker_ports::Deadlines;
use broker_tests::real::{LEASE, RealWorld, config, wire};
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

    /// A replica in its own process that makes few optional requests.
    pub(crate) fn host(&self) -> Host {
        Host::start(&Place {
            dsn: self.postgres.url(),
            kubeconfig: &self.kubernetes.kubeconfig(),
            lease: LEASE,
            sweep: Duration::from_secs(5),
            poll: Duration::from_millis(250),
        })
    }

    pub(crate) fn forget_rules(&self) {
        self.postgres.script().clear();
        self.kubernetes.script().clear();
    }

    pub(crate) async fn reconciler(&self, timeout: Duration) -> Reconciler {
        let mut config = config("in-between");
        config.deadlines = Deadlines::each(timeout);
        let options = PgPoolOptions::new().max_connections(8).test_before_acquire(false);
        let pool = options.connect_lazy_with(self.postgres.options());
        let ports = wire(&pool, self.kubernetes.client().await, timeout).0.ports;
        Reconciler::new(ports, config)
    }
}
