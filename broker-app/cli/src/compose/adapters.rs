//! Which adapter stands behind which port.

use std::sync::Arc;

use broker_pg::{ChainedNodeDeregistrar, PgMesh, PgNeighbours, PgStore, PgTokenIssuer};
use broker_ports::{Cluster, EventSink, Ports};
use sqlx::PgPool;

use super::system::{SystemClock, SystemIds};

/// One adapter of each kind, over one pool and one cluster.
pub(super) struct Adapters {
    pub(super) store: Arc<PgStore>,
    pub(super) tokens: Arc<PgTokenIssuer>,
    neighbours: Arc<PgNeighbours>,
    nodes: Arc<ChainedNodeDeregistrar>,
    cluster: Arc<dyn Cluster>,
}

impl Adapters {
    pub(super) fn new(pool: &PgPool, cluster: Arc<dyn Cluster>) -> Self {
        let mesh = Arc::new(PgMesh::new(pool.clone()));
        let nodes = ChainedNodeDeregistrar::new(mesh.clone(), mesh.clone(), mesh);
        Self {
            store: Arc::new(PgStore::new(pool.clone())),
            tokens: Arc::new(PgTokenIssuer::new(pool.clone())),
            neighbours: Arc::new(PgNeighbours::new(pool.clone())),
            nodes: Arc::new(nodes),
            cluster,
        }
    }

    pub(super) fn ports(&self, sink: Arc<dyn EventSink>) -> Ports {
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
            sink,
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
        }
    }
}
