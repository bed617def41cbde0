//! Locks: one process migrates at a time, and no step waits long for a table lock.
//!
//! A statement that waits for an exclusive lock blocks every later reader and writer of the table. So the wait is
//! short, and the error names the lock and the session that held it.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgPool, Postgres, Row};
use tokio::time::{Instant, sleep};

use super::error::MigrateError;

/// The advisory lock of both sets: one set refers to the other.
const MIGRATION_LOCK: i64 = 0x7072_6f76_6272_6b72;

/// Longest wait for another migrating process.
const MIGRATION_LOCK_TIMEOUT: Duration = Duration::from_mins(1);

/// Poll interval of the migration lock. A blocking wait would hold a snapshot, and a concurrent index build waits for
/// all snapshots: a deadlock.
const MIGRATION_LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Longest wait of a step for a lock that others queue behind.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest lock wait of a statement outside a transaction. A concurrent index build waits for foreign transactions
/// and blocks only other migrations.
pub(super) const STATEMENT_LOCK_TIMEOUT: Duration = Duration::from_mins(10);

/// Poll interval for the lock that a step waits for.
const BLOCKER_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Longest quote of another session's query, in bytes.
const MAX_QUERY_BYTES: usize = 120;

/// Finds the lock that a process waits for, and its holder.
const FIND_BLOCKER: &str =
    "SELECT w.mode, w.locktype, w.relation::regclass::text AS relation, b.pid,
    a.application_name, a.state, a.query
FROM pg_locks AS w
    CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
    LEFT JOIN pg_stat_activity AS a ON a.pid = b.pid
WHERE w.pid = $1 AND NOT w.granted
LIMIT 1";

const FIND_MIGRATING_SESSION: &str = "SELECT NULL AS mode, l.locktype, NULL AS relation, l.pid,
    a.application_name, a.state, a.query
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.classid::bigint = $1 >> 32 AND l.objid::bigint = $1 & 4294967295
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
LIMIT 1";

/// A connection that holds the migration lock. Dropping it closes the connection, which releases the lock.
pub(super) struct Session {
    pub(super) connection: PoolConnection<Postgres>,
    pool: PgPool,
    pid: i32,
}

impl Session {
    pub(super) async fn open(pool: &PgPool) -> Result<Self, MigrateError> {
        let mut connection = pool.acquire().await?;
        connection.close_on_drop();
        let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *connection).await?;
        let mut session = Self { connection, pool: pool.clone(), pid };
        let started = Instant::now();
        loop {
            let try_lock =
                sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(MIGRATION_LOCK);
            if try_lock.fetch_one(&mut *session.connection).await? {
                return Ok(session);
            }
            if started.elapsed() > MIGRATION_LOCK_TIMEOUT {
                let holder = sqlx::query(FIND_MIGRATING_SESSION)
                    .bind(MIGRATION_LOCK)
                    .fetch_optional(&mut *session.connection)
                    .await?;
                let holder =
                    holder.map(|row| Lock::from_row(&row).map(|lock| lock.holder)).transpose()?;
                return Err(MigrateError::Busy { holder: holder.unwrap_or_default() });
            }
            sleep(MIGRATION_LOCK_POLL_INTERVAL).await;
        }
    }

    /// Runs one or more statements, with lock waits limited by the session's `lock_timeout`. A timeout error includes
    /// the awaited lock.
    pub(super) async fn execute(&mut self, sql: &str) -> Result<u64, StepError> {
        let text = AssertSqlSafe(sql.to_owned());
        let work = sqlx::raw_sql(text).execute(&mut *self.connection);
        let (result, lock) = run_watched(&self.pool, self.pid, work).await;
        match result {
            Ok(result) => Ok(result.rows_affected()),
            Err(error) if is_lock_timeout(&error) => Err(StepError::Locked(
                lock.map_or_else(|| "a lock".to_owned(), |lock| lock.to_string()),
            )),
            Err(error) => Err(StepError::Refused(error)),
        }
    }

    pub(super) async fn set_lock_timeout(&mut self, limit: Duration) -> Result<(), sqlx::Error> {
        let statement = format!("SET lock_timeout = {}", limit.as_millis());
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *self.connection).await.map(drop)
    }
}

#[derive(Debug)]
pub(super) enum StepError {
    Locked(String),
    /// The database refused the step or did not respond.
    Refused(sqlx::Error),
}

impl From<sqlx::Error> for StepError {
    fn from(error: sqlx::Error) -> Self {
        Self::Refused(error)
    }
}

/// An awaited lock and the session that held it.
struct Lock {
    name: String,
    holder: String,
}

impl Lock {
    fn from_row(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
        let mode: Option<String> = row.try_get("mode")?;
        let relation: Option<String> = row.try_get("relation")?;
        let locktype: String = row.try_get("locktype")?;
        let pid: i32 = row.try_get("pid")?;
        let text = |column| row.try_get::<Option<String>, _>(column);
        let details = [
            text("application_name")?,
            text("state")?,
            text("query")?.map(|query| shorten(&query)),
        ];
        let details: Vec<_> =
            details.into_iter().flatten().filter(|detail| !detail.is_empty()).collect();
        let mode = mode.unwrap_or_default();
        Ok(Self {
            name: relation.map_or_else(
                || format!("{mode} ({locktype})"),
                |relation| format!("{mode} on {relation}"),
            ),
            holder: format!("process {pid} ({})", details.join(", ")),
        })
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, held by {}", self.name, self.holder)
    }
}

fn shorten(query: &str) -> String {
    let mut line = query.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > MAX_QUERY_BYTES {
        line.truncate(line.floor_char_boundary(MAX_QUERY_BYTES));
        line.push('…');
    }
    line
}

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() == Some("55P03")
}

/// Runs `work`, and returns the lock that it was last seen waiting for.
async fn run_watched<T>(
    pool: &PgPool,
    pid: i32,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> (Result<T, sqlx::Error>, Option<Lock>) {
    let mut last_lock = None;
    let result = match select(pin!(work), pin!(poll_blocker(pool, pid, &mut last_lock))).await {
        Either::Left((result, _)) => result,
        Either::Right((never, _)) => match never {},
    };
    (result, last_lock)
}

/// Ignores failed polls: the server may have no spare connection, and the step reports its own error.
async fn poll_blocker(pool: &PgPool, pid: i32, last_lock: &mut Option<Lock>) -> Infallible {
    loop {
        sleep(BLOCKER_POLL_INTERVAL).await;
        if let Ok(Some(row)) = sqlx::query(FIND_BLOCKER).bind(pid).fetch_optional(pool).await
            && let Ok(lock) = Lock::from_row(&row)
        {
            *last_lock = Some(lock);
        }
    }
}
