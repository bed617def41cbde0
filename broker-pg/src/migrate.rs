//! The schema and its history: from an empty database to the tables of this release.
//!
//! Two sets of migrations exist. The broker's set matches the code. The reference set creates minimal platform tables
//! that the broker refers to (Projects, blueprints, credentials, tokens, Nodes), for databases without a platform. The
//! reference set runs first.
//!
//! ```no_run
//! # async fn start(pool: sqlx::PgPool) -> Result<(), broker_pg::migrate::MigrateError> {
//! use broker_pg::migrate;
//!
//! migrate::reference_up(&pool).await?; // only without a platform that has these tables
//! migrate::up(&pool).await?;
//! migrate::ensure_current(&pool).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A migration has one or more steps. Most are transactions that change the catalog only. Steps that may run twice
//! change the rows of large tables in batches and build indexes concurrently. Each finished step is recorded, so an
//! interrupted run resumes at its next step. Any number of processes may start at once: one migrates, the others
//! wait. A step waits at most five seconds for a lock that readers or writers queue behind; the error names the
//! lock and the session that held it.
//!
//! The record is a table in the schema `plexsphere`; the host's own migration tables are never read. Migrations only
//! add, so the previous release can run concurrently with this one. Each migration records the lowest release that
//! may run on it, so an older replica can restart during a rollout. Each migration can be reverted and states what
//! the revert loses.

mod error;
mod history;
mod lock;
mod run;
mod script;
mod set;
mod step;

use sqlx::PgPool;

pub use error::MigrateError;
pub use script::{plain_sql, plain_sql_of_reference};
pub use set::{MIGRATIONS, Migration, MigrationStatus, REFERENCE};

use self::run::Direction;
use self::set::{BROKER_SET, REFERENCE_SET};

/// Migrates the broker's tables to this release. Returns the completed migrations; none if the schema is current.
///
/// # Errors
///
/// - [`MigrateError::Newer`] if a later release migrated the database and does not allow this one; nothing is
///   changed.
/// - [`MigrateError::Changed`] and [`MigrateError::Gap`] if the recorded history does not match this release.
/// - [`MigrateError::Failed`] and [`MigrateError::Locked`] if a step failed; earlier steps stay.
/// - [`MigrateError::Busy`] if another process migrates for longer than a minute.
/// - [`MigrateError::Database`] for every other failure.
pub async fn up(pool: &PgPool) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &BROKER_SET, Direction::Up).await
}

/// Reverts the broker's migrations above version `to`, newest first; 0 reverts all. Returns the reverted versions.
///
/// The revert loses data: the first lines of each down script in [`MIGRATIONS`] list it.
///
/// # Errors
///
/// As [`up`]. Also [`MigrateError::Failed`] if the data must not be lost, and [`MigrateError::Unfinished`].
pub async fn down(pool: &PgPool, to: u32) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &BROKER_SET, Direction::DownTo(to)).await
}

/// The state of each broker migration.
///
/// # Errors
///
/// As [`up`].
pub async fn status(pool: &PgPool) -> Result<Vec<MigrationStatus>, MigrateError> {
    run::status(pool, &BROKER_SET).await
}

/// Returns an error if this release cannot use the schema. Call it at startup, with a timeout. The schema of a later
/// release passes if its migrations allow this release.
///
/// # Errors
///
/// One line each: [`MigrateError::Missing`], [`MigrateError::Older`], [`MigrateError::Newer`]; and as [`up`].
pub async fn ensure_current(pool: &PgPool) -> Result<(), MigrateError> {
    run::ensure_current(pool, &BROKER_SET).await
}

/// Creates the minimal platform tables.
///
/// # Errors
///
/// As [`up`].
pub async fn reference_up(pool: &PgPool) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &REFERENCE_SET, Direction::Up).await
}

/// Drops the minimal platform tables with all their data.
///
/// # Errors
///
/// As [`down`]; refused while the broker's tables refer to them.
pub async fn reference_down(pool: &PgPool, to: u32) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &REFERENCE_SET, Direction::DownTo(to)).await
}
