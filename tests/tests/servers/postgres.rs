//! Smoke tests of Postgres, and of what the harness promises about it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use broker_tests::{Template, TestPostgres, until};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::task::JoinSet;

use super::processes::user_of;

async fn count(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_dropped_database_is_gone_even_if_somebody_is_connected() {
    let postgres = TestPostgres::shared().await;
    let database = postgres.database().await;
    let name = database.name().to_owned();
    let mut lingering = PgConnection::connect_with(&database.options()).await.unwrap();
    drop(database);

    let mut admin = PgConnection::connect_with(&postgres.options("postgres")).await.unwrap();
    let exists: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
            .bind(&name)
            .fetch_one(&mut admin)
            .await
            .unwrap();
    assert!(!exists);
    lingering.ping().await.unwrap_err();
}

#[tokio::test]
async fn a_template_is_filled_once_and_copied_for_each() {
    let filled = Arc::new(AtomicUsize::new(0));
    let fills = Arc::clone(&filled);
    let template = Template::new(format!("once_{}", std::process::id()), move |options| {
        fills.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut connection = PgConnection::connect_with(&options).await?;
            connection.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (7)").await?;
            connection.close().await
        }
    });
    let mut tests = JoinSet::new();
    for _ in 0..4 {
        let template = template.clone();
        tests.spawn(async move {
            let database = TestPostgres::shared().await.database_from(&template).await;
            assert_eq!(count(database.pool()).await, 1);
            database.pool().execute("DELETE FROM t").await.unwrap();
        });
    }
    while let Some(test) = tests.join_next().await {
        test.unwrap();
    }
    assert_eq!(filled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_dedicated_server_can_be_killed_and_keeps_what_was_committed() {
    let postgres = TestPostgres::dedicated().await;
    let database = postgres.database().await;
    database.pool().execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1)").await.unwrap();
    let mut open = database.pool().begin().await.unwrap();
    open.execute("INSERT INTO t VALUES (2)").await.unwrap();
    let id = postgres.server().id().await.unwrap();
    assert_ne!(user_of(id), 0, "it runs as root");

    postgres.server().kill().await;
    assert_eq!(postgres.server().id().await, None);
    open.commit().await.unwrap_err();
    PgConnection::connect_with(&database.options()).await.unwrap_err();

    postgres.server().restart().await;
    assert_ne!(postgres.server().id().await, Some(id));
    PgConnection::connect_with(&database.options()).await.expect("restarted, but not ready");
    assert_eq!(
        until("the pool to recover", || async { recovered(database.pool()).await }).await,
        1
    );

    postgres.server().stop().await;
    PgConnection::connect_with(&database.options()).await.unwrap_err();
    postgres.server().restart().await;
    assert_eq!(
        until("the pool to recover", || async { recovered(database.pool()).await }).await,
        1
    );
}

/// A pool may still hand out connections to the server that was killed.
async fn recovered(pool: &PgPool) -> Option<i64> {
    sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(pool).await.ok()
}
