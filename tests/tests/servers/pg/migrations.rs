//! The migrator on real Postgres: concurrent, interrupted, changed, too old, too new, and back
//! again.

mod revert;
pub(super) mod dump;
mod first_release;
mod filled_tables;
mod locks;

use std::error::Error as _;

use broker_pg::migrate::{self, MIGRATIONS, MigrateError, REFERENCE};
use broker_tests::{TestDatabase, TestPostgres};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};
use tokio::task::JoinSet;

use dump::dump;

const RECORD: &str = "plexsphere.provisioning_broker_migrations";

fn versions() -> Vec<u32> {
    MIGRATIONS.iter().map(|migration| migration.version).collect()
}

fn last() -> u32 {
    *versions().last().unwrap()
}

/// A database with the platform's tables and without ours.
async fn with_reference_tables() -> TestDatabase {
    let database = TestPostgres::shared().await.database().await;
    migrate::reference_up(database.pool()).await.unwrap();
    database
}

/// A separate pool, as another process has.
fn another_pool(database: &TestDatabase) -> PgPool {
    PgPoolOptions::new().max_connections(2).connect_lazy_with(database.options())
}

#[tokio::test]
async fn ten_concurrent_migrators_apply_each_migration_once() {
    let database = TestPostgres::shared().await.database().await;
    let mut starting = JoinSet::new();
    for _ in 0..10 {
        let pool = another_pool(&database);
        starting.spawn(async move {
            let reference = migrate::reference_up(&pool).await.unwrap();
            let applied = migrate::up(&pool).await.unwrap();
            migrate::ensure_current(&pool).await.unwrap();
            (reference, applied)
        });
    }
    let (mut reference, mut applied) = (Vec::new(), Vec::new());
    for (first, then) in starting.join_all().await {
        reference.extend(first);
        applied.extend(then);
    }
    applied.sort_unstable();
    assert_eq!(applied, versions(), "each was applied once, by the first migrator");
    assert_eq!(reference.len(), REFERENCE.len());
}

#[tokio::test]
async fn up_down_up_leaves_the_same_schema() {
    let database = with_reference_tables().await;
    let pool = database.pool();
    let platform = dump(pool).await;
    assert!(migrate::status(pool).await.unwrap().iter().all(|line| line.applied_at.is_none()));
    assert_eq!(migrate::up(pool).await.unwrap(), versions());
    let status = migrate::status(pool).await.unwrap();
    assert_eq!(status.iter().map(|line| line.version).collect::<Vec<_>>(), versions());
    assert!(status.iter().all(|line| line.applied_at.is_some()));
    let sql = format!("SELECT lowest_release FROM {RECORD} ORDER BY version");
    let recorded = sqlx::query_scalar::<_, i32>(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await;
    let held = MIGRATIONS.iter().map(|migration| i32::try_from(migration.lowest_release).unwrap());
    assert!(held.eq(recorded.unwrap()), "each records the lowest release that runs on it");
    let full = dump(pool).await;
    dump::compare(&full);
    let mut back = versions();
    back.reverse();
    assert_eq!(migrate::down(pool, 0).await.unwrap(), back);
    let left = dump(pool).await;
    let left = left.lines().filter(|line| !line.contains("provisioning_broker_migrations"));
    assert!(left.eq(platform.lines()), "more than the record is left");
    migrate::up(pool).await.unwrap();
    for version in versions().into_iter().rev() {
        migrate::down(pool, version - 1).await.unwrap();
        migrate::up(pool).await.unwrap();
        assert_eq!(dump(pool).await, full, "down to {} and up again", version - 1);
    }
    migrate::down(pool, 0).await.unwrap();
    migrate::reference_down(pool, 0).await.unwrap();
}

#[tokio::test]
async fn refused_migration_changes_nothing() {
    let database = with_reference_tables().await;
    let pool = database.pool();
    // The last migration creates this table after it has changed another one.
    pool.execute("CREATE TABLE plexsphere.provisioning_outbox (n int)").await.unwrap();
    let error = migrate::up(pool).await.unwrap_err();
    let MigrateError::Failed { version, .. } = &error else { panic!("{error}") };
    assert_eq!(*version, last());
    assert!(error.source().unwrap().to_string().contains("provisioning_outbox"), "{error:?}");
    let halfway: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM information_schema.columns WHERE table_schema = 'plexsphere'
            AND table_name = 'provisioned_resource_outbox_token' AND column_name = 'version')",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    assert!(!halfway, "part of the refused migration stayed");
    let found = migrate::ensure_current(pool).await.unwrap_err();
    assert!(matches!(found, MigrateError::Older { found, .. } if found < last()), "{found}");

    pool.execute("DROP TABLE plexsphere.provisioning_outbox").await.unwrap();
    assert_eq!(migrate::up(pool).await.unwrap(), [last()]);
}

#[tokio::test]
async fn database_without_platform_tables_is_refused_unchanged() {
    let database = TestPostgres::shared().await.database().await;
    let error = migrate::up(database.pool()).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the database has no plexsphere.projects, plexsphere.resources, plexsphere.blueprint_versions, \
         plexsphere.cloud_credentials, which the broker's tables refer to: run the platform's own migrations first, or \
         create minimal ones (`migrate up --reference`, in Rust `migrate::reference_up`)"
    );
    let made = "SELECT to_regnamespace('plexsphere') IS NOT NULL";
    let made: bool = sqlx::query_scalar(made).fetch_one(database.pool()).await.unwrap();
    assert!(!made, "the schema was made");
}

#[tokio::test]
async fn missing_older_and_newer_schemas_have_distinct_errors() {
    let database = with_reference_tables().await;
    let pool = database.pool();
    let line = || async { migrate::ensure_current(pool).await.unwrap_err().to_string() };
    let needed = last();
    assert_eq!(
        line().await,
        format!(
            "the database holds no schema of the broker; this release needs version {needed}: migrate up"
        )
    );
    migrate::up(pool).await.unwrap();
    migrate::down(pool, 27).await.unwrap();
    assert_eq!(
        line().await,
        format!("the schema has version 27 and this release needs {needed}: migrate up")
    );
    migrate::up(pool).await.unwrap();
    // A recorded migration of a later release, on which this one may run.
    let later = format!(
        "INSERT INTO {RECORD} (version, name, checksum, lowest_release, steps_done, applied_at)
         VALUES (9000, 'later', '', {needed}, 1, now())"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(later)).execute(pool).await.unwrap();
    migrate::ensure_current(pool).await.unwrap();
    assert_eq!(migrate::up(pool).await.unwrap(), Vec::<u32>::new());
    // Only the release that contains a migration can revert it.
    let error = migrate::down(pool, 0).await.unwrap_err();
    assert!(matches!(error, MigrateError::Newer { found: 9000, .. }), "{error}");
    let beyond = format!("UPDATE {RECORD} SET lowest_release = {needed} + 1 WHERE version = 9000");
    sqlx::raw_sql(sqlx::AssertSqlSafe(beyond)).execute(pool).await.unwrap();
    let newer = format!(
        "the schema has version 9000 and this release knows up to {needed}: run a later release"
    );
    assert_eq!(line().await, newer);
    assert_eq!(migrate::up(pool).await.unwrap_err().to_string(), newer);
    assert_eq!(migrate::down(pool, 0).await.unwrap_err().to_string(), newer);
}

#[tokio::test]
async fn plain_scripts_applied_twice_change_nothing() {
    let database = TestPostgres::shared().await.database().await;
    let pool = database.pool();
    let apply = || async {
        for script in [migrate::plain_sql_of_reference(), migrate::plain_sql()] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(pool).await.unwrap();
        }
        let applied: Vec<_> =
            migrate::status(pool).await.unwrap().iter().map(|line| line.applied_at).collect();
        (dump(pool).await, applied)
    };
    let once = apply().await;
    dump::compare(&once.0);
    assert_eq!(migrate::up(pool).await.unwrap(), Vec::<u32>::new(), "the history is whole");
    assert_eq!(apply().await, once);
}

#[tokio::test]
async fn foreign_migration_history_is_refused() {
    let database = with_reference_tables().await;
    let pool = database.pool();
    migrate::up(pool).await.unwrap();
    let run = |sql: String| async {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(pool).await.unwrap();
    };
    run(format!("UPDATE {RECORD} SET checksum = '\\x00' WHERE version = 28")).await;
    for refused in [
        migrate::up(pool).await.map(drop),
        migrate::down(pool, 0).await.map(drop),
        migrate::ensure_current(pool).await,
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, MigrateError::Changed { version: 28 }), "{error}");
    }
    run(format!("DELETE FROM {RECORD} WHERE version = 28")).await;
    let error = migrate::up(pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Gap { version: 28 }), "{error}");
}
