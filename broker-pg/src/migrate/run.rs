//! Applying a set, step by step.

use sqlx::{AssertSqlSafe, PgPool};

use super::error::MigrateError;
use super::history::{History, Left, Line, read};
use super::lock::{LOCK_WITHIN, STATEMENT_LOCK_WITHIN, Session, StepError};
use super::script;
use super::set::{Migration, MigrationStatus, Set};
use super::step::{Step, index_built_by, statements, steps};

/// Which way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    Up,
    DownTo(u32),
}

/// Applies or takes back until nothing is left to do. What is done is read from the record each time, so it does not
/// matter where a run before this one was cut off.
pub(super) async fn run(
    pool: &PgPool,
    set: &Set,
    direction: Direction,
) -> Result<Vec<u32>, MigrateError> {
    let mut session = Session::open(pool).await?;
    if matches!(direction, Direction::Up) {
        expect_references(&mut session, set).await?;
    }
    prepare(&mut session, set).await?;
    let mut done = Vec::new();
    loop {
        let history = History::of(set, read(&mut session.connection, set).await?)?;
        let migration = match direction {
            Direction::Up => match history.left(set) {
                Some(left) => apply(&mut session, set, &left).await.map(|()| left.migration)?,
                None => break,
            },
            Direction::DownTo(to) => match history.back(set, to)? {
                Some(migration) => take_back(&mut session, set, migration).await?,
                None => break,
            },
        };
        tracing::info!(version = migration.version, name = migration.name, ?direction, "migrated");
        done.push(migration.version);
    }
    // The next process need not wait until the server has noticed that this connection is closed.
    sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut *session.connection).await?;
    Ok(done)
}

pub(super) async fn status(pool: &PgPool, set: &Set) -> Result<Vec<MigrationStatus>, MigrateError> {
    let history = History::of(set, look(pool, set).await?)?;
    let of = |version| history.known.iter().find(|line: &&Line| line.version == version);
    Ok(set
        .migrations
        .iter()
        .map(|migration| MigrationStatus {
            version: migration.version,
            name: migration.name,
            applied_at: of(migration.version).and_then(|line| line.applied_at),
        })
        .collect())
}

pub(super) async fn ensure_current(pool: &PgPool, set: &Set) -> Result<(), MigrateError> {
    let needed = set.last();
    let history = History::of(set, look(pool, set).await?)?;
    match history.version() {
        0 => Err(MigrateError::Missing { needed }),
        found if found < needed => Err(MigrateError::Older { found, needed }),
        _ => Ok(()),
    }
}

/// Refuses a database without the tables that the set refers to. A step would fail on the first of them only.
async fn expect_references(session: &mut Session, set: &Set) -> Result<(), MigrateError> {
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

/// Makes the place for the record if there is none, and sets what every step relies on.
async fn prepare(session: &mut Session, set: &Set) -> Result<(), MigrateError> {
    let connection = &mut *session.connection;
    // A host that made the schema itself need not let us make one.
    let has_schema: bool = sqlx::query_scalar("SELECT to_regnamespace('plexsphere') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !has_schema {
        sqlx::raw_sql("CREATE SCHEMA plexsphere").execute(&mut *connection).await?;
    }
    // Nothing in a script may depend on the role that runs it: every name says its schema. A step that had to wait for
    // a lock must not decide on what was true before, whatever the host made the default.
    sqlx::raw_sql(
        "SET search_path TO pg_catalog, pg_temp; SET default_transaction_isolation TO 'read committed'",
    )
    .execute(&mut *connection)
    .await?;
    // With `IF NOT EXISTS` alone the server sends a notice at each start, which the driver logs.
    let has_record: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(set.table)
        .fetch_one(&mut *connection)
        .await?;
    if !has_record {
        let record = AssertSqlSafe(script::record_table(set.table));
        sqlx::raw_sql(record).execute(&mut *connection).await?;
    }
    session.wait_within(LOCK_WITHIN).await?;
    Ok(())
}

/// The record, empty if there is none. Changes nothing.
async fn look(pool: &PgPool, set: &Set) -> Result<Vec<Line>, MigrateError> {
    let mut connection = pool.acquire().await?;
    let exists: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(set.table)
        .fetch_one(&mut *connection)
        .await?;
    Ok(if exists { read(&mut connection, set).await? } else { Vec::new() })
}

/// Every step of a migration that is not done yet.
async fn apply(session: &mut Session, set: &Set, left: &Left) -> Result<(), MigrateError> {
    let migration = left.migration;
    let steps = steps(migration.up);
    for (number, step) in (1..).zip(&steps).skip(left.done) {
        let record = script::record_step(set.table, migration, number, steps.len());
        perform(session, *step, &record).await.map_err(|error| migration.failed(error))?;
    }
    Ok(())
}

async fn perform(session: &mut Session, step: Step, record: &str) -> Result<(), StepError> {
    match step {
        Step::Transaction(script) => return transaction(session, script, record).await,
        Step::Batches(statement) => while session.execute(statement).await? > 0 {},
        Step::Statements(text) => {
            session.wait_within(STATEMENT_LOCK_WITHIN).await?;
            for statement in statements(text) {
                build_or_execute(session, statement).await?;
            }
            session.wait_within(LOCK_WITHIN).await?;
        }
    }
    // If this is not recorded, the step runs again and finds nothing to do.
    session.execute(record).await.map(drop)
}

/// Runs a statement that may have run before. An index that is complete is left as it is, and one whose build was cut
/// off is built again.
async fn build_or_execute(session: &mut Session, statement: &'static str) -> Result<(), StepError> {
    if let Some(index) = index_built_by(statement) {
        let valid =
            "SELECT i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
            WHERE c.relname = $1 AND c.relnamespace = 'plexsphere'::regnamespace";
        let valid: Option<bool> =
            sqlx::query_scalar(valid).bind(index).fetch_optional(&mut *session.connection).await?;
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

async fn take_back(
    session: &mut Session,
    set: &Set,
    migration: &'static Migration,
) -> Result<&'static Migration, MigrateError> {
    let record = script::record_taken_back(set.table, migration);
    let taken_back = transaction(session, migration.down, &record).await;
    taken_back.map_err(|error| migration.failed(error))?;
    Ok(migration)
}

/// A script and its line in the record, both or neither. A failure leaves the transaction open, and the session ends
/// with it.
async fn transaction(session: &mut Session, script: &str, record: &str) -> Result<(), StepError> {
    session.execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let done = async {
        session.execute(script).await?;
        session.execute(record).await
    };
    if let Err(error) = done.await {
        // The locks are given back now, and not when the server notices that the connection is closed. If that fails,
        // closing it has to do.
        let _ = session.execute("ROLLBACK").await;
        return Err(error);
    }
    session.execute("COMMIT").await.map(drop)
}
