//! A database for one test.

use std::time::Duration;

use broker_pg::test_idle_connections;
use sqlx::{
    Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use broker_test_servers::servers::PostgresAccess;

use super::{
    TestPostgres,
    template::{statement, unique_name},
};
use crate::failure::OrFail;

/// A killed or stopped server cannot drop the database; the run removes its directory.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// A database. Dropping it drops the database, even with open connections.
#[derive(Debug)]
pub struct TestDatabase {
    postgres: TestPostgres,
    name: String,
    pool: PgPool,
}

impl TestDatabase {
    pub(super) async fn create(postgres: &TestPostgres, template: &str) -> Self {
        let name = unique_name();
        let create = async {
            let mut admin = PgConnection::connect_with(&postgres.options("postgres")).await?;
            let sql = format!(r#"CREATE DATABASE "{name}" TEMPLATE "{template}""#);
            statement(&mut admin, sql).await?;
            admin.close().await
        };
        create.await.or_fail("a test database cannot be created");
        let pool =
            PgPoolOptions::new().max_connections(10).connect_lazy_with(postgres.options(&name));
        Self { postgres: postgres.clone(), name, pool }
    }

    /// A pool of at most ten connections.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A pool like the shipped binary's: 20 connections, which are tested only after they were idle. Not for a
    /// test that closes connections.
    pub fn pool_like_binary(&self) -> PgPool {
        let pool = test_idle_connections(PgPoolOptions::new()).max_connections(20);
        pool.connect_lazy_with(self.options())
    }

    /// The connection options, as superuser.
    pub fn options(&self) -> PgConnectOptions {
        self.postgres.options(&self.name)
    }

    /// The URL, for a process that reads its DSN from the environment.
    pub fn url(&self) -> String {
        self.url_with_port(self.postgres.access().port)
    }

    /// The URL with the port of a proxy.
    pub(crate) fn url_with_port(&self, port: u16) -> String {
        let PostgresAccess { host, port: _, user, password } = self.postgres.access();
        format!("postgres://{user}:{password}@{host}:{port}/{}?sslmode=disable", self.name)
    }

    /// Its name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let admin = self.postgres.options("postgres");
        let sql = format!(r#"DROP DATABASE IF EXISTS "{}" WITH (FORCE)"#, self.name);
        let drop_database = async move {
            let mut admin = PgConnection::connect_with(&admin).await?;
            statement(&mut admin, sql).await?;
            admin.close().await
        };
        // Best effort: a leftover costs a few megabytes until the run ends.
        let _ = crate::wait::in_own_runtime(DROP_TIMEOUT, drop_database);
    }
}
