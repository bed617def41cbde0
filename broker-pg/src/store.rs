//! The store behind four ports: repository, schedule, outbox and audit sink over one database.

use broker_ports::PortError;
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};

use crate::error::ClassifyError;

/// The broker's store on Postgres. Clones share its pool.
///
/// The embedder owns the pool with its size, timeouts, TLS and credentials, and the schema, which
/// [`migrate`](crate::migrate) updates. Where SQL allows it, a method is one statement that commits by itself. Any
/// number of replicas may call any method concurrently.
///
/// The pool's connections must use `READ COMMITTED`, Postgres' default. A stricter level is safe, but turns races
/// into `Transient` errors.
///
/// ```no_run
/// # async fn start(pool: sqlx::PgPool) {
/// use std::sync::Arc;
///
/// use broker_pg::PgStore;
/// use broker_ports::{Outbox, Repository, Schedule};
///
/// let store = Arc::new(PgStore::new(pool));
/// let repository: Arc<dyn Repository> = store.clone();
/// let schedule: Arc<dyn Schedule> = store.clone();
/// let outbox: Arc<dyn Outbox> = store;
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PgStore {
    pub(crate) pool: PgPool,
}

impl PgStore {
    /// A store over the pool's database.
    pub const fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// A failure means that no statement was sent.
    pub(crate) async fn connection(&self) -> Result<PoolConnection<Postgres>, PortError> {
        self.pool.acquire().await.map_uncommitted_error()
    }
}
