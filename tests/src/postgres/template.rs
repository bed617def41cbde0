//! The content of a new database. Filling one is slow and copying one is fast, so each content is created
//! once per server and copied for every test.

use std::{fmt, future::Future, hash::BuildHasher, pin::Pin, sync::Arc};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, postgres::PgConnectOptions};

use super::TestPostgres;
use crate::failure::OrFail;

type FillFuture = Pin<Box<dyn Future<Output = Result<(), sqlx::Error>> + Send>>;

/// The content of a new database.
#[derive(Clone)]
pub struct Template {
    name: String,
    fill: Arc<dyn Fn(PgConnectOptions) -> FillFuture + Send + Sync>,
}

impl Template {
    /// The template without any table.
    pub fn empty() -> Self {
        Self::new("empty", |_| async { Ok(()) })
    }

    /// The content that `fill` writes into the database that it gets. The server identifies templates by
    /// name, so the name must change with the content: end it with a fingerprint. `fill` must close its
    /// connections.
    pub fn new<F>(
        name: impl Into<String>,
        fill: impl Fn(PgConnectOptions) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), sqlx::Error>> + Send + 'static,
    {
        Self { name: name.into(), fill: Arc::new(move |options| Box::pin(fill(options))) }
    }

    /// The name of the database to copy. Creates and fills the database if necessary.
    pub(super) async fn ensure_filled(&self, postgres: &TestPostgres) -> String {
        let name = format!("template_{}", self.name);
        self.try_ensure_filled(postgres, &name)
            .await
            .or_fail(format_args!("the database template {:?} cannot be filled", self.name));
        name
    }

    async fn try_ensure_filled(
        &self,
        postgres: &TestPostgres,
        name: &str,
    ) -> Result<(), sqlx::Error> {
        let mut admin = PgConnection::connect_with(&postgres.options("postgres")).await?;
        // This session holds the lock until it is closed; other processes can fill other templates.
        sqlx::query("SELECT pg_advisory_lock(hashtextextended($1, 0))")
            .bind(name)
            .execute(&mut admin)
            .await?;
        let exists: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
                .bind(name)
                .fetch_one(&mut admin)
                .await?;
        if !exists {
            // The database gets its final name when it is complete, so that a failed attempt is never
            // copied.
            let unfinished = format!("{name}_unfinished");
            statement(
                &mut admin,
                format!(r#"DROP DATABASE IF EXISTS "{unfinished}" WITH (FORCE)"#),
            )
            .await?;
            statement(&mut admin, format!(r#"CREATE DATABASE "{unfinished}" TEMPLATE template0"#))
                .await?;
            (self.fill)(postgres.options(&unfinished)).await?;
            statement(&mut admin, format!(r#"ALTER DATABASE "{unfinished}" RENAME TO "{name}""#))
                .await?;
        }
        admin.close().await
    }
}

/// A statement about databases, whose names cannot be parameters. The names are generated, not user input.
pub(super) async fn statement(
    connection: &mut PgConnection,
    sql: String,
) -> Result<(), sqlx::Error> {
    connection.execute(AssertSqlSafe(sql)).await.map(drop)
}

/// A name that is unique among tests, processes and runs.
pub(super) fn unique_name() -> String {
    let random = std::hash::RandomState::new().hash_one(std::process::id());
    format!("test_{random:016x}")
}

impl fmt::Debug for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Template").field("name", &self.name).finish_non_exhaustive()
    }
}
