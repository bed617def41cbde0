//! The Postgres adapters on a real server.

mod secret_leaks;
mod constraints;
pub(crate) mod faults;
mod host_outbox;
mod migrations;
pub(crate) mod platform;
mod plans;
mod pool;
mod statements;
pub(crate) mod store;

use broker_tests::real::migrated;
use broker_tests::{TestDatabase, TestPostgres};

/// A new database with all tables, the platform's and the broker's, without rows.
pub(crate) async fn fresh_database() -> TestDatabase {
    TestPostgres::shared().await.database_from(&migrated()).await
}
