//! The Postgres adapters on a real server.

mod canary;
mod constraints;
pub(crate) mod faults;
mod migrations;
pub(crate) mod neighbours;
mod plans;
mod pool;
mod statements;
pub(crate) mod store;

use std::hash::{DefaultHasher, Hash, Hasher};

use broker_pg::migrate;
use broker_tests::{Template, TestDatabase, TestPostgres};
use sqlx::PgPool;

/// A database of its own with all tables in it, the neighbours' and the broker's, and nothing in them.
pub(crate) async fn fresh_database() -> TestDatabase {
    TestPostgres::shared().await.database_from(&migrated()).await
}

/// Named after the scripts, so that a server that outlives a change of them has no use for the old one.
fn migrated() -> Template {
    let mut fingerprint = DefaultHasher::new();
    (migrate::plain_sql_of_reference(), migrate::plain_sql()).hash(&mut fingerprint);
    Template::new(format!("migrated_{:016x}", fingerprint.finish()), |options| async move {
        let pool = PgPool::connect_with(options).await?;
        migrate::reference_up(&pool)
            .await
            .map_err(|error| sqlx::Error::Configuration(error.into()))?;
        migrate::up(&pool).await.map_err(|error| sqlx::Error::Configuration(error.into()))?;
        pool.close().await;
        Ok(())
    })
}
