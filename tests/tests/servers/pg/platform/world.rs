//! A database and the direct changes that the contract suites make to it.

mod mesh;
mod resolvers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_domain::{ProvisionedResourceId, TokenOrdinal};
use broker_pg::{ChainedNodeDeregistrar, PgMesh, PgPlatform, PgTokenIssuer};
use broker_ports::{Issue, IssueRequest, IssuedToken, LeaseEpoch, PortError, TokenIssuer};
use broker_tests::TestDatabase;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use crate::servers::pg::fresh_database;

/// The adapters over a pool that a case may close, and direct access to their tables.
pub(crate) struct World {
    database: Arc<TestDatabase>,
    adapters: PgPool,
    pub(super) platform: PgPlatform,
    pub(super) tokens: PgTokenIssuer,
    pub(crate) mesh: PgMesh,
    deregistrar: ChainedNodeDeregistrar,
}

impl World {
    pub(super) async fn fresh() -> Self {
        Self::over(&Arc::new(fresh_database().await))
    }

    /// A world in a shared database: all its objects have unique ids.
    pub(crate) fn over(database: &Arc<TestDatabase>) -> Self {
        Self::with_connections(database, 10)
    }

    /// The same with this many connections for the adapters.
    pub(super) fn with_connections(database: &Arc<TestDatabase>, connections: u32) -> Self {
        let adapters =
            PgPoolOptions::new().max_connections(connections).connect_lazy_with(database.options());
        let mesh = PgMesh::new(adapters.clone());
        Self {
            platform: PgPlatform::new(adapters.clone()),
            tokens: PgTokenIssuer::new(adapters.clone()),
            deregistrar: mesh.deregistrar(),
            mesh,
            adapters,
            database: Arc::clone(database),
        }
    }

    /// Direct access, also after the adapters were cut off.
    pub(super) fn pool(&self) -> &PgPool {
        self.database.pool()
    }

    pub(crate) fn new_resource() -> ProvisionedResourceId {
        static RESOURCES: AtomicU64 = AtomicU64::new(1 << 32);
        let number = RESOURCES.fetch_add(1, Ordering::Relaxed);
        ProvisionedResourceId::new(Uuid::from_u128(number.into())).unwrap()
    }

    /// A new token, under ordinal and epoch 1.
    pub(crate) async fn issue(
        &self,
        resource: ProvisionedResourceId,
    ) -> Result<IssuedToken, PortError> {
        match self.tokens.issue(&self.request(resource).await?).await? {
            Issue::Issued(token) => Ok(token),
            Issue::Consumed { id } => panic!("{id} was consumed before it was issued"),
        }
    }

    pub(super) async fn request(
        &self,
        resource: ProvisionedResourceId,
    ) -> Result<IssueRequest, PortError> {
        let ttl = self.tokens.ttl_window().await?.max;
        Ok(IssueRequest::new(resource, TokenOrdinal::FIRST, LeaseEpoch::new(1), ttl))
    }

    async fn close_pool(&self) -> Result<(), PortError> {
        self.adapters.close().await;
        Ok(())
    }

    async fn execute(&self, statement: Execute<'_>) -> Result<u64, PortError> {
        let done = statement.execute(self.pool()).await.map_err(as_port_error)?;
        Ok(done.rows_affected())
    }

    async fn insert(&self, insert: Insert<'_>) -> Result<Uuid, PortError> {
        insert.fetch_one(self.pool()).await.map_err(as_port_error)
    }
}

type Execute<'q> = sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments>;

type Insert<'q> = sqlx::query::QueryScalar<'q, sqlx::Postgres, Uuid, sqlx::postgres::PgArguments>;

fn as_port_error(error: sqlx::Error) -> PortError {
    PortError::transient("the test's own statement failed").with_source(error)
}
