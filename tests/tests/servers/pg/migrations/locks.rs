//! A migration that meets a lock times out, and names the lock.

use broker_pg::migrate::{self, MigrateError};
use sqlx::Executor;

use super::{another_pool, versions};
use crate::servers::pg::fresh_database;

#[tokio::test]
async fn step_that_waits_too_long_names_lock_and_holder() {
    let database = fresh_database().await;
    let pool = database.pool();
    migrate::down(pool, 27).await.unwrap();
    let others = another_pool(&database);
    let mut reader = others.begin().await.unwrap();
    reader
        .execute("LOCK TABLE plexsphere.provisioned_resources IN ACCESS SHARE MODE")
        .await
        .unwrap();
    let pid: i32 = sqlx::query_scalar("/* a long report */ SELECT pg_backend_pid()")
        .fetch_one(&mut *reader)
        .await
        .unwrap();

    let error = migrate::up(pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Locked { version: 28, .. }), "{error:?}");
    let line = error.to_string();
    for part in [
        "AccessExclusiveLock on plexsphere.provisioned_resources".to_owned(),
        format!("held by process {pid}"),
        "idle in transaction, /* a long report */ SELECT pg_backend_pid()".to_owned(),
    ] {
        assert!(line.contains(&part), "{line}");
    }
    assert_eq!(line.lines().count(), 1);

    reader.rollback().await.unwrap();
    assert_eq!(migrate::up(pool).await.unwrap(), versions()[2..]);
}
