//! A database with a store, and the direct changes that the contract suites make to it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{Declaration, ProvisionedResourceId};
use broker_pg::{PgStore, create_in};
use broker_ports::{
    Admitted, AuditRecord, AuditSink, Created, Outbox, PortError, Repository, Schedule,
};
use broker_testkit::store::{OpenTransaction, StoreUnderTest};
use broker_tests::{TestDatabase, TestPostgres};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

use crate::servers::pg::fresh_database;

/// A store over a database that one world uses at a time. Emptying the database is much faster than
/// creating one.
pub(crate) struct World {
    database: Arc<TestDatabase>,
    pub(crate) store: PgStore,
}

/// Empties all tables but the migration records, without triggers and foreign keys.
const EMPTY: &str = "DO $$
DECLARE
    emptied text;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR emptied IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'plexsphere' AND tablename NOT LIKE '%_migrations'
    LOOP
        EXECUTE format('DELETE FROM plexsphere.%I', emptied);
    END LOOP;
END
$$";

/// Inserts the rows that a declaration refers to, and the cloud of its credential.
const INSERT_REFERENCES: &str = "WITH project AS (
    INSERT INTO plexsphere.projects (id) VALUES ($1) ON CONFLICT DO NOTHING
), resource AS (
    INSERT INTO plexsphere.resources (id, project_id, handle) VALUES ($2, $1, $2::text) ON CONFLICT DO NOTHING
), blueprint AS (
    INSERT INTO plexsphere.blueprint_versions
        (id, slug, version, display_name, description, provider_kinds, injection_strategy, parameter_schema,
         metadata, xrd, composition)
    VALUES ($3, $3::text, 'v1', '', '', '{}', 'helm-values', '{}', '', '', '')
    ON CONFLICT DO NOTHING
), cloud AS (
    INSERT INTO plexsphere.clouds (id, provider) VALUES ($4, 'test') ON CONFLICT DO NOTHING
)
INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
VALUES ($4, $4, 'kv', $4::text) ON CONFLICT DO NOTHING";

/// Moves every time of the store's clock into the past, without triggers. Callers' times stay, and
/// no row may be changed before it was created.
const ADVANCE: &str = "SET LOCAL session_replication_role = replica;
UPDATE plexsphere.provisioned_resources SET updated_at = greatest(updated_at - {by}, created_at);
UPDATE plexsphere.provisioned_resource_schedule SET due_at = due_at - {by}, lease_until = lease_until - {by};
UPDATE plexsphere.provisioning_turns SET served_at = served_at - {by};
UPDATE plexsphere.provisioning_permits SET taken_at = taken_at - {by};
UPDATE plexsphere.provisioning_outbox SET committed_at = committed_at - {by},
    held_until = held_until - {by}, settled_at = settled_at - {by};
UPDATE plexsphere.provisioned_resource_audit SET at = at - {by};";

impl World {
    pub(crate) async fn alone() -> Self {
        Self::over(Arc::new(fresh_database().await))
    }

    /// A world in a database that earlier worlds used.
    pub(crate) async fn emptied(database: &Arc<TestDatabase>) -> Self {
        let world = Self::over(Arc::clone(database));
        world.allow_connections(true).await.unwrap();
        sqlx::raw_sql(EMPTY).execute(world.pool()).await.unwrap();
        world
    }

    pub(crate) fn over(database: Arc<TestDatabase>) -> Self {
        let store = PgStore::new(database.pool().clone());
        Self { database, store }
    }

    async fn allow_connections(&self, allow: bool) -> Result<(), sqlx::Error> {
        let options = TestPostgres::shared().await.options("postgres");
        let mut admin = PgConnection::connect_with(&options).await?;
        let name = self.database.name();
        let sql = format!(r#"ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allow}"#);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await?;
        if !allow {
            sqlx::query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1",
            )
            .bind(name)
            .execute(&mut admin)
            .await?;
        }
        admin.close().await
    }

    pub(crate) fn database(&self) -> &TestDatabase {
        &self.database
    }

    pub(crate) fn pool(&self) -> &PgPool {
        self.database.pool()
    }
}

fn as_port_error(error: sqlx::Error) -> PortError {
    PortError::transient("the test's own statement failed").with_source(error)
}

/// A host's transaction in which a declaration was stored.
struct HostTransaction(sqlx::Transaction<'static, sqlx::Postgres>);

#[async_trait]
impl OpenTransaction for HostTransaction {
    async fn commit(self: Box<Self>) -> Result<(), PortError> {
        self.0.commit().await.map_err(as_port_error)
    }
}

#[async_trait]
impl StoreUnderTest for World {
    fn repository(&self) -> &dyn Repository {
        &self.store
    }

    fn schedule(&self) -> &dyn Schedule {
        &self.store
    }

    fn outbox(&self) -> &dyn Outbox {
        &self.store
    }

    fn audit(&self) -> &dyn AuditSink {
        &self.store
    }

    async fn register_references(&self, declaration: &Declaration) -> Result<(), PortError> {
        sqlx::query(INSERT_REFERENCES)
            .bind(declaration.project_id.as_uuid())
            .bind(declaration.resource_id.as_uuid())
            .bind(declaration.blueprint_version_id.as_uuid())
            .bind(declaration.cloud_credential_id.as_uuid())
            .execute(self.pool())
            .await
            .map(drop)
            .map_err(as_port_error)
    }

    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
        self.store.audit_trail().await
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        let moved = async {
            let mut transaction = self.pool().begin().await?;
            let by = format!("interval '{} microseconds'", by.as_micros());
            let sql = ADVANCE.replace("{by}", &by);
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await?;
            transaction.commit().await
        };
        moved.await.map_err(as_port_error)
    }

    async fn begin_create<'a>(
        &'a self,
        admitted: &Admitted,
    ) -> Result<Box<dyn OpenTransaction + 'a>, PortError> {
        let mut host = self.pool().begin().await.map_err(as_port_error)?;
        match create_in(&mut host, admitted).await? {
            Created::Stored => Ok(Box::new(HostTransaction(host))),
            Created::Replayed(_) | Created::Conflict => {
                Err(PortError::rejected("the declaration was stored before"))
            }
        }
    }

    /// No trigger or CHECK rejects such a name; only the domain does.
    async fn corrupt(&self, id: ProvisionedResourceId) -> Result<bool, PortError> {
        let corrupt =
            "UPDATE plexsphere.provisioned_resources SET xr_name = 'No Such Name' WHERE id = $1";
        let corrupt = sqlx::query(corrupt).bind(id.as_uuid());
        let corrupted = corrupt.execute(self.pool()).await.map_err(as_port_error)?;
        Ok(corrupted.rows_affected() == 1)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.allow_connections(false).await.map_err(as_port_error)
    }
}
