//! Declare: what the neighbours know, read from their tables.
//!
//! One statement per question, and nothing is remembered but blueprint versions, which never change once they
//! are published. The neighbours' own tables stand in `reference/`.

mod blueprint;
mod cloud;
mod credential;

use std::sync::Arc;

use broker_ports::PortError;
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};

pub(crate) use blueprint::RESOLVE_BLUEPRINT;
pub(crate) use cloud::RESOLVE_CLOUD;
pub(crate) use credential::RESOLVE_CREDENTIAL;

use crate::error::Classified;
use blueprint::ReadBlueprints;

/// Catalog, inventory, credentials, assignments and labels, as the neighbours' tables have them. It implements
/// all five resolvers. Clones share what was read of the catalog.
#[derive(Debug, Clone)]
pub struct PgPlatform {
    pool: PgPool,
    blueprints: Arc<ReadBlueprints>,
}

impl PgPlatform {
    /// The neighbours whose tables stand in the schema `plexsphere` of this database.
    pub fn new(pool: PgPool) -> Self {
        Self { pool, blueprints: Arc::default() }
    }

    pub(crate) async fn connection(&self) -> Result<PoolConnection<Postgres>, PortError> {
        self.pool.acquire().await.harmless()
    }
}
