//! A database for one test.

use std::time::Duration;

use broker_pg::resilient;
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

/// A killed or frozen server keeps the database; its directory is removed soon.
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

    /// Another pool, configured like the shipped binary's: 20 connections, not tested immediately after
    /// use. Not for a test that closes connections.
    pub fn trusting_pool(&self) -> PgPool {
        let pool = resilient(PgPoolOptions::new()).max_connections(20);
        pool.connect_lazy_with(self.options())
    }

    /// How to connect to it, as superuser.
    pub fn options(&self) -> PgConnectOptions {
        self.postgres.options(&self.name)
    }

    /// The same as a URL, for a process that reads its DSN from the environment.
    pub fn url(&self) -> String {
        self.url_at(self.postgres.access().port)
    }

    /// The same for another port, on which a proxy listens.
    pub(crate) fn url_at(&self, port: u16) -> String {
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
