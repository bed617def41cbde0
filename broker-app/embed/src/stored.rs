//! Which adapter stands behind which port, over one pool.

use std::sync::Arc;

use broker_pg::{PgMesh, PgPlatform, PgStore, PgTokenIssuer, migrate};
use sqlx::PgPool;

use crate::builder::StorePorts;

pub(crate) fn store_ports(pool: PgPool) -> StorePorts {
    let store = Arc::new(PgStore::new(pool.clone()));
    let neighbours = Arc::new(PgPlatform::new(pool.clone()));
    let max_connections = Some(pool.options().get_max_connections());
    StorePorts {
        repository: store.clone(),
        schedule: store.clone(),
        outbox: store.clone(),
        audit: store,
        tokens: Arc::new(PgTokenIssuer::new(pool.clone())),
        nodes: Arc::new(PgMesh::new(pool.clone()).deregistrar()),
        blueprints: neighbours.clone(),
        clouds: neighbours.clone(),
        credentials: neighbours.clone(),
        assignments: neighbours.clone(),
        labels: neighbours,
        max_connections,
        check: Some(Box::new(move || {
            let pool = pool.clone();
            Box::pin(async move { Ok(migrate::ensure_current(&pool).await?) })
        })),
    }
}
