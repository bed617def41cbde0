//! Declare: reads the data of the platform contexts from their tables.
//!
//! One statement per call. Only the documents of blueprint versions are cached, because they never change. The minimal
//! platform tables are in `reference/`.

mod blueprint;
mod cloud;
mod credential;

use std::sync::Arc;

use broker_ports::PortError;
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};

pub(crate) use blueprint::{READ_BLUEPRINT_STATE, RESOLVE_BLUEPRINT};
pub(crate) use cloud::RESOLVE_CLOUD;
pub(crate) use credential::RESOLVE_CREDENTIAL;

use crate::error::ClassifyError;
use blueprint::BlueprintCache;

/// Catalog, inventory, credentials, assignments and Resources from the platform's tables. It implements all five
/// resolvers. Clones share the blueprint cache.
#[derive(Debug, Clone)]
pub struct PgPlatform {
    pool: PgPool,
    blueprints: Arc<BlueprintCache>,
}

impl PgPlatform {
    /// The platform whose tables are in the schema `plexsphere` of this database.
    pub fn new(pool: PgPool) -> Self {
        Self { pool, blueprints: Arc::default() }
    }

    pub(crate) async fn connection(&self) -> Result<PoolConnection<Postgres>, PortError> {
        self.pool.acquire().await.map_uncommitted_error()
    }
}
