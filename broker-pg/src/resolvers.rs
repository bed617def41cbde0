//! Stage 1, declare: what the neighbours know, read from their tables.
//!
//! One statement per question, and nothing is remembered but blueprint versions, which never change once they
//! are published. The neighbours' own tables stand in `reference/`.

mod blueprint;
mod cloud;
mod credential;

use std::sync::Arc;

use sqlx::PgPool;

use blueprint::ReadBlueprints;

/// Catalog, inventory, credentials, assignments and labels, as the neighbours' tables have them. It implements
/// all five resolvers. Clones share what was read of the catalog.
#[derive(Debug, Clone)]
pub struct PgNeighbours {
    pub(crate) pool: PgPool,
    blueprints: Arc<ReadBlueprints>,
}

impl PgNeighbours {
    /// The neighbours whose tables stand in the schema `plexsphere` of this database.
    pub fn new(pool: PgPool) -> Self {
        Self { pool, blueprints: Arc::default() }
    }
}
