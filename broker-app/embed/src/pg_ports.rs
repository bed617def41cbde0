//! The Postgres adapters behind the ports of the store, over one pool.

use std::sync::Arc;

use broker_pg::{PgMesh, PgPlatform, PgStore, PgTokenIssuer, migrate};
use sqlx::PgPool;

use crate::builder::StorePorts;

pub(crate) fn store_ports(pool: PgPool) -> StorePorts {
    let store = Arc::new(PgStore::new(pool.clone()));
    let platform = Arc::new(PgPlatform::new(pool.clone()));
    let max_connections = Some(pool.options().get_max_connections());
    StorePorts {
        repository: store.clone(),
        schedule: store.clone(),
        outbox: store.clone(),
        audit: store,
        tokens: Arc::new(PgTokenIssuer::new(pool.clone())),
        nodes: Arc::new(PgMesh::new(pool.clone()).deregistrar()),
        blueprints: platform.clone(),
        clouds: platform.clone(),
        credentials: platform.clone(),
        assignments: platform.clone(),
        resources: platform,
        max_connections,
        check: Some(Box::new(move || {
            let pool = pool.clone();
            Box::pin(async move { Ok(migrate::ensure_current(&pool).await?) })
        })),
    }
}
