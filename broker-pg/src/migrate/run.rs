//! Applying a set, one transaction per migration, each under a lock that lives as long as the transaction.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row};
use time::OffsetDateTime;

use super::error::MigrateError;
use super::set::{Migration, MigrationStatus, Set};
use crate::transaction;

/// Which way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    Up,
    DownTo(u32),
}

/// Held by whoever changes the schema, for one transaction. Both sets share it: one refers to the other.
const LOCK: i64 = 0x7072_6f76_6272_6b72;

/// A line of the record.
struct Line {
    version: u32,
    checksum: Vec<u8>,
    applied_at: OffsetDateTime,
}

/// Applies or takes back until nothing is left to do. Every round is a transaction that looks anew, so it
/// does not matter how many processes do this at once, nor where one of them was killed.
pub(super) async fn run(
    pool: &PgPool,
    set: &Set,
    direction: Direction,
) -> Result<Vec<u32>, MigrateError> {
    let mut done = Vec::new();
    loop {
        let mut transaction = transaction::begin(pool).await?;
        prepare(&mut transaction, set).await?;
        let applied = read(&mut transaction, set).await?;
        check(set, &applied)?;
        let Some(migration) = next(set, &applied, direction) else {
            transaction.commit().await?;
            return Ok(done);
        };
        step(&mut transaction, set, migration, direction).await?;
        transaction.commit().await?;
        tracing::info!(version = migration.version, name = migration.name, ?direction, "migrated");
        done.push(migration.version);
    }
}

pub(super) async fn status(pool: &PgPool, set: &Set) -> Result<Vec<MigrationStatus>, MigrateError> {
    let applied = look(pool, set).await?.unwrap_or_default();
    check(set, &applied)?;
    let of = |version| applied.iter().find(|line| line.version == version);
    Ok(set
        .migrations
        .iter()
        .map(|migration| MigrationStatus {
            version: migration.version,
            name: migration.name,
            applied_at: of(migration.version).map(|line| line.applied_at),
        })
        .collect())
}

pub(super) async fn ensure_current(pool: &PgPool, set: &Set) -> Result<(), MigrateError> {
    let needed = set.last();
    let applied = look(pool, set).await?.unwrap_or_default();
    check(set, &applied)?;
    match applied.last() {
        None => Err(MigrateError::Missing { needed }),
        Some(last) if last.version < needed => {
            Err(MigrateError::Older { found: last.version, needed })
        }
        Some(_) => Ok(()),
    }
}

/// Takes the lock, and makes the place for the record if there is none.
async fn prepare(connection: &mut PgConnection, set: &Set) -> Result<(), MigrateError> {
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *connection).await?;
    // A host that made the schema itself need not let us make one.
    let has_schema: bool = sqlx::query_scalar("SELECT to_regnamespace('plexsphere') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !has_schema {
        sqlx::raw_sql("CREATE SCHEMA plexsphere").execute(&mut *connection).await?;
    }
    // Nothing in a script may depend on whom it is run by: every name says its schema.
    sqlx::raw_sql("SET LOCAL search_path TO pg_catalog, pg_temp").execute(&mut *connection).await?;
    sqlx::raw_sql(AssertSqlSafe(super::script::record_table(set.table)))
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// The record, if there is one. Changes nothing.
async fn look(pool: &PgPool, set: &Set) -> Result<Option<Vec<Line>>, MigrateError> {
    let mut connection = pool.acquire().await?;
    let exists: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(set.table)
        .fetch_one(&mut *connection)
        .await?;
    if exists { read(&mut connection, set).await.map(Some) } else { Ok(None) }
}

async fn read(connection: &mut PgConnection, set: &Set) -> Result<Vec<Line>, MigrateError> {
    let sql = format!("SELECT version, checksum, applied_at FROM {} ORDER BY version", set.table);
    let line = |row: PgRow| {
        Ok(Line {
            version: u32::try_from(row.try_get::<i32, _>("version")?)
                .map_err(|error| sqlx::Error::Decode(error.into()))?,
            checksum: row.try_get("checksum")?,
            applied_at: row.try_get("applied_at")?,
        })
    };
    let lines = sqlx::query(AssertSqlSafe(sql)).try_map(line).fetch_all(connection).await?;
    Ok(lines)
}

/// Invariant: what is applied is a beginning of what this release holds, with the same text.
fn check(set: &Set, applied: &[Line]) -> Result<(), MigrateError> {
    let known = set.last();
    if let Some(last) = applied.last()
        && last.version > known
    {
        return Err(MigrateError::Newer { found: last.version, known });
    }
    for (position, line) in applied.iter().enumerate() {
        let Some(migration) = set.migrations.iter().find(|known| known.version == line.version)
        else {
            return Err(MigrateError::Changed { version: line.version });
        };
        if migration.checksum()[..] != line.checksum {
            return Err(MigrateError::Changed { version: line.version });
        }
        if let Some(expected) = set.migrations.get(position)
            && expected.version != line.version
        {
            return Err(MigrateError::Gap { version: expected.version });
        }
    }
    Ok(())
}

fn next(set: &Set, applied: &[Line], direction: Direction) -> Option<&'static Migration> {
    match direction {
        Direction::Up => set.migrations.get(applied.len()),
        Direction::DownTo(to) => {
            let last = applied.len().checked_sub(1)?;
            set.migrations.get(last).filter(|migration| migration.version > to)
        }
    }
}

async fn step(
    connection: &mut PgConnection,
    set: &Set,
    migration: &'static Migration,
    direction: Direction,
) -> Result<(), MigrateError> {
    let Migration { version, name, up, down } = *migration;
    let script = match direction {
        Direction::Up => up,
        Direction::DownTo(_) => down,
    };
    sqlx::raw_sql(script)
        .execute(&mut *connection)
        .await
        .map_err(|source| MigrateError::Failed { version, name, source })?;
    let record = match direction {
        Direction::Up => super::script::record_applied(set.table, migration),
        Direction::DownTo(_) => super::script::record_taken_back(set.table, migration),
    };
    sqlx::raw_sql(AssertSqlSafe(record)).execute(&mut *connection).await?;
    Ok(())
}
