//! Which adapter stands behind which port: Postgres and Kubernetes, and the machine's own clock and ids.

use std::sync::Arc;
use std::time::Duration;

use broker_app::LogEventSink;
use broker_domain::{EventId, ProvisionedResourceId};
use broker_kube::cache::{Cache, CacheOptions};
use broker_kube::{KubeCluster, KubeOptions};
use broker_pg::{ChainedNodeDeregistrar, PgMesh, PgNeighbours, PgStore, PgTokenIssuer};
use broker_ports::{Clock, Cluster, IdSource, Ports};
use kube::Client;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// One adapter of each kind, over one pool and one cluster.
pub struct Adapters {
    store: Arc<PgStore>,
    tokens: Arc<PgTokenIssuer>,
    neighbours: Arc<PgNeighbours>,
    nodes: Arc<ChainedNodeDeregistrar>,
    cluster: Arc<dyn Cluster>,
}

impl Adapters {
    /// The shipped adapters, and the cache that somebody may run beside them. The client has to send each
    /// request once.
    #[must_use]
    pub fn over(pool: &PgPool, client: Client, patience: Duration) -> (Self, Arc<Cache>) {
        let cache = Arc::new(Cache::new(client.clone(), CacheOptions::default()));
        let options = KubeOptions::new(patience, patience);
        let adapters = Self {
            store: Arc::new(PgStore::new(pool.clone())),
            tokens: Arc::new(PgTokenIssuer::new(pool.clone())),
            neighbours: Arc::new(PgNeighbours::new(pool.clone())),
            nodes: Arc::new(PgMesh::new(pool.clone()).deregistrar()),
            cluster: Arc::new(KubeCluster::new(client, options, Arc::clone(&cache))),
        };
        (adapters, cache)
    }

    /// Every port.
    #[must_use]
    pub fn ports(&self) -> Ports {
        let Self { store, tokens, neighbours, nodes, cluster } = self;
        Ports {
            repository: store.clone(),
            schedule: store.clone(),
            outbox: store.clone(),
            cluster: Arc::clone(cluster),
            tokens: tokens.clone(),
            nodes: nodes.clone(),
            blueprints: neighbours.clone(),
            clouds: neighbours.clone(),
            credentials: neighbours.clone(),
            assignments: neighbours.clone(),
            labels: neighbours.clone(),
            audit: store.clone(),
            sink: Arc::new(LogEventSink),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
        }
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

/// Version 7 UUIDs, which grow with the machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemIds;

impl Clock for SystemClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }
}

impl IdSource for SystemIds {
    fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        minted()
    }

    fn event_id(&self) -> EventId {
        minted()
    }
}

/// A new id of any kind; only the nil UUID is none, and that is never minted.
pub(super) fn minted<T: TryFrom<Uuid>>() -> T {
    loop {
        if let Ok(id) = T::try_from(Uuid::now_v7()) {
            return id;
        }
    }
}
