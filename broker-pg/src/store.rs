//! The store behind four ports: repository, schedule, outbox and audit sink over one database.

use broker_ports::{Backoff, PortError};
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};

use crate::error::Classified;

/// The broker's store on Postgres. Clones share its pool.
///
/// It takes a pool and nothing else: size, timeouts, TLS and credentials are the embedder's, and so is the
/// schema, which [`migrate`](crate::migrate) brings up to date. Every method is one statement, which commits
/// by itself, wherever SQL allows it; all of them may be called by any number of replicas at once.
///
/// The pool's connections have to run at `READ COMMITTED`, which is Postgres' own default. A stricter level
/// loses nothing, but turns races into `Transient` errors.
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
    pub(crate) backoff: Backoff,
}

impl PgStore {
    /// A store over the database that a pool connects to.
    pub fn new(pool: PgPool) -> Self {
        Self { pool, backoff: Backoff::default() }
    }

    /// With other bounds for the back-off after failed passes.
    #[must_use]
    pub const fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The bounds of the back-off.
    pub const fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// A connection. Nothing was sent on it yet, so a failure is harmless.
    pub(crate) async fn connection(&self) -> Result<PoolConnection<Postgres>, PortError> {
        self.pool.acquire().await.harmless()
    }
}
