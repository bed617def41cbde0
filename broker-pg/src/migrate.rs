//! The schema and its history: what stands between an empty database and the tables of this release.
//!
//! There are two sets. The broker's own is kept in step with the code. The reference set makes minimal tables
//! of the neighbours that the broker refers to (Projects, blueprints, credentials, tokens, Nodes), for whoever
//! has none; it comes first.
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
//! A migration is one or more steps. Most are transactions that change the catalog only. Rows of large tables are
//! changed in batches and indexes are built concurrently, in steps that may run twice. Each finished step is recorded,
//! so a run that was cut off goes on where it stopped, and any number of processes may start at once: one migrates, the
//! others wait for it. No step waits longer than five seconds for a lock that readers or writers queue behind; the
//! error names the lock and the session that held it.
//!
//! The record is a table of our own in the schema `plexsphere`; the host's tables are never read. Migrations only add,
//! so that the release before runs beside this one. Each migration records the lowest release that may run on it: an
//! older replica that restarts during a rollout starts on the newer schema. Each migration can be taken back, and says
//! what that loses.

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

/// Brings the broker's tables up to this release. Answers which migrations it completed; none if there was
/// nothing to do.
///
/// # Errors
///
/// - [`MigrateError::Newer`] when the database is of a later release that does not allow this one; nothing is changed.
/// - [`MigrateError::Changed`] and [`MigrateError::Gap`] when its history is not ours.
/// - [`MigrateError::Failed`] and [`MigrateError::Locked`] when a step did not happen; those before it stay.
/// - [`MigrateError::Busy`] when another process migrates for longer than a minute.
/// - [`MigrateError::Database`] for everything else.
pub async fn up(pool: &PgPool) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &BROKER_SET, Direction::Up).await
}

/// Takes back every migration of the broker above a version, newest first; 0 takes back all. Answers which.
///
/// Data goes with it: the first lines of each script in [`MIGRATIONS`] say what.
///
/// # Errors
///
/// As [`up`]; [`MigrateError::Failed`] also when what would be lost must not be, and [`MigrateError::Unfinished`].
pub async fn down(pool: &PgPool, to: u32) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &BROKER_SET, Direction::DownTo(to)).await
}

/// Which of the broker's migrations are applied.
///
/// # Errors
///
/// As [`up`].
pub async fn status(pool: &PgPool) -> Result<Vec<MigrationStatus>, MigrateError> {
    run::status(pool, &BROKER_SET).await
}

/// Refuses a database whose schema this release cannot run on. A composition root asks before it starts anything, with
/// a timeout of its own. The schema of a later release is accepted if its migrations allow this release.
///
/// # Errors
///
/// One line each: [`MigrateError::Missing`], [`MigrateError::Older`], [`MigrateError::Newer`]; and as [`up`].
pub async fn ensure_current(pool: &PgPool) -> Result<(), MigrateError> {
    run::ensure_current(pool, &BROKER_SET).await
}

/// Makes the minimal tables of the neighbours.
///
/// # Errors
///
/// As [`up`].
pub async fn reference_up(pool: &PgPool) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &REFERENCE_SET, Direction::Up).await
}

/// Takes the neighbours' tables away, with everything in them.
///
/// # Errors
///
/// As [`down`]; refused while the broker's tables refer to them.
pub async fn reference_down(pool: &PgPool, to: u32) -> Result<Vec<u32>, MigrateError> {
    run::run(pool, &REFERENCE_SET, Direction::DownTo(to)).await
}
