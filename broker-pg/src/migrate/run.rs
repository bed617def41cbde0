//! Applies and reverts a set, step by step.

use sqlx::{AssertSqlSafe, PgPool};

use super::error::MigrateError;
use super::history::{History, PendingMigration, RecordLine, read_record_lines};
use super::lock::{LOCK_TIMEOUT, STATEMENT_LOCK_TIMEOUT, Session, StepError};
use super::script;
use super::set::{Migration, MigrationSet, MigrationStatus};
use super::step::{Step, index_built_by, parse_steps, split_statements};

#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    Up,
    DownTo(u32),
}

/// Runs until no migration is left. Each round reads the record and so resumes an interrupted run.
pub(super) async fn run(
    pool: &PgPool,
    set: &MigrationSet,
    direction: Direction,
) -> Result<Vec<u32>, MigrateError> {
    let mut session = Session::open(pool).await?;
    if matches!(direction, Direction::Up) {
        require_references(&mut session, set).await?;
    }
    prepare(&mut session, set).await?;
    let mut migrated = Vec::new();
    loop {
        let history = History::check(set, read_record_lines(&mut session.connection, set).await?)?;
        let migration = match direction {
            Direction::Up => match history.pending(set) {
                Some(pending) => {
                    apply(&mut session, set, &pending).await.map(|()| pending.migration)?
                }
                None => break,
            },
            Direction::DownTo(to) => match history.next_to_revert(set, to)? {
                Some(migration) => revert(&mut session, set, migration).await?,
                None => break,
            },
        };
        tracing::info!(version = migration.version, name = migration.name, ?direction, "migrated");
        migrated.push(migration.version);
    }
    // Unlocks explicitly: the server may notice the closed connection late.
    sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut *session.connection).await?;
    Ok(migrated)
}

pub(super) async fn status(
    pool: &PgPool,
    set: &MigrationSet,
) -> Result<Vec<MigrationStatus>, MigrateError> {
    let history = History::check(set, read_record(pool, set).await?)?;
    let record_of =
        |version| history.known.iter().find(|line: &&RecordLine| line.version == version);
    Ok(set
        .migrations
        .iter()
        .map(|migration| MigrationStatus {
            version: migration.version,
            name: migration.name,
            applied_at: record_of(migration.version).and_then(|line| line.applied_at),
        })
        .collect())
}

pub(super) async fn ensure_current(pool: &PgPool, set: &MigrationSet) -> Result<(), MigrateError> {
    let needed = set.last();
    let history = History::check(set, read_record(pool, set).await?)?;
    match history.version() {
        0 => Err(MigrateError::Missing { needed }),
        found if found < needed => Err(MigrateError::Older { found, needed }),
        _ => Ok(()),
    }
}

/// Checks all referenced tables at once. A step would report only the first missing one.
async fn require_references(session: &mut Session, set: &MigrationSet) -> Result<(), MigrateError> {
    let missing: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NULL",
    )
    .bind(set.refers_to)
    .fetch_all(&mut *session.connection)
    .await?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(MigrateError::NoReferences { tables: missing.join(", ") })
}

/// Creates the record table if it is missing, and sets the session parameters that every step relies on.
async fn prepare(session: &mut Session, set: &MigrationSet) -> Result<(), MigrateError> {
    let connection = &mut *session.connection;
    // The host may have created the schema and denied the broker that right.
    let has_schema: bool = sqlx::query_scalar("SELECT to_regnamespace('plexsphere') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !has_schema {
        sqlx::raw_sql("CREATE SCHEMA plexsphere").execute(&mut *connection).await?;
    }
    // Scripts qualify every name and must not depend on the role's search path. After a lock wait a step must see
    // current rows, whatever isolation level the host sets as default.
    sqlx::raw_sql(
        "SET search_path TO pg_catalog, pg_temp; SET default_transaction_isolation TO 'read committed'",
    )
    .execute(&mut *connection)
    .await?;
    // `IF NOT EXISTS` alone raises a notice at each start, which the driver logs.
    let has_record: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(set.table)
        .fetch_one(&mut *connection)
        .await?;
    if !has_record {
        let record = AssertSqlSafe(script::record_table(set.table));
        sqlx::raw_sql(record).execute(&mut *connection).await?;
    }
    session.set_lock_timeout(LOCK_TIMEOUT).await?;
    Ok(())
}

/// The record; empty without a record table. Read-only.
async fn read_record(pool: &PgPool, set: &MigrationSet) -> Result<Vec<RecordLine>, MigrateError> {
    let mut connection = pool.acquire().await?;
    let exists: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(set.table)
        .fetch_one(&mut *connection)
        .await?;
    Ok(if exists { read_record_lines(&mut connection, set).await? } else { Vec::new() })
}

async fn apply(
    session: &mut Session,
    set: &MigrationSet,
    pending: &PendingMigration,
) -> Result<(), MigrateError> {
    let migration = pending.migration;
    let steps = parse_steps(migration.up);
    for (number, step) in (1..).zip(&steps).skip(pending.steps_done) {
        let record = script::record_step(set.table, migration, number, steps.len());
        run_step(session, *step, &record).await.map_err(|error| migration.step_failure(error))?;
    }
    Ok(())
}

async fn run_step(session: &mut Session, step: Step, record: &str) -> Result<(), StepError> {
    match step {
        Step::Transaction(script) => return run_in_transaction(session, script, record).await,
        Step::Batches(statement) => while session.execute(statement).await? > 0 {},
        Step::Statements(text) => {
            session.set_lock_timeout(STATEMENT_LOCK_TIMEOUT).await?;
            for statement in split_statements(text) {
                build_or_execute(session, statement).await?;
            }
            session.set_lock_timeout(LOCK_TIMEOUT).await?;
        }
    }
    // An unrecorded step runs again and is then a no-op.
    session.execute(record).await.map(drop)
}

/// Runs a statement that may have run before. Keeps a valid index, and rebuilds one whose build was interrupted.
async fn build_or_execute(session: &mut Session, statement: &'static str) -> Result<(), StepError> {
    if let Some(index) = index_built_by(statement) {
        let validity_query =
            "SELECT i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
            WHERE c.relname = $1 AND c.relnamespace = 'plexsphere'::regnamespace";
        let valid: Option<bool> = sqlx::query_scalar(validity_query)
            .bind(index)
            .fetch_optional(&mut *session.connection)
            .await?;
        match valid {
            Some(true) => return Ok(()),
            Some(false) => {
                session.execute(&format!("DROP INDEX CONCURRENTLY plexsphere.{index}")).await?;
            }
            None => {}
        }
    }
    session.execute(statement).await.map(drop)
}

async fn revert(
    session: &mut Session,
    set: &MigrationSet,
    migration: &'static Migration,
) -> Result<&'static Migration, MigrateError> {
    let record = script::record_revert(set.table, migration);
    let reverted = run_in_transaction(session, migration.down, &record).await;
    reverted.map_err(|error| migration.step_failure(error))?;
    Ok(migration)
}

/// Runs a script and its record in one transaction. After a failure the caller drops the session.
async fn run_in_transaction(
    session: &mut Session,
    script: &str,
    record: &str,
) -> Result<(), StepError> {
    session.execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let work = async {
        session.execute(script).await?;
        session.execute(record).await
    };
    if let Err(error) = work.await {
        // Releases the locks now. If that fails, the closed connection releases them later.
        let _ = session.execute("ROLLBACK").await;
        return Err(error);
    }
    session.execute("COMMIT").await.map(drop)
}
