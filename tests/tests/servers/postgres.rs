//! Smoke tests of Postgres, and of what the harness promises about it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use broker_tests::{Template, TestPostgres, until};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::task::JoinSet;

use super::processes::{state_of, user_of};

async fn count(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_commit_is_visible_to_others_and_a_rollback_is_not() {
    let database = TestPostgres::shared().await.database().await;
    let pool = database.pool();
    pool.execute("CREATE TABLE t (n int)").await.unwrap();

    let mut committed = pool.begin().await.unwrap();
    committed.execute("INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!(count(pool).await, 0, "not committed yet, and counted by another connection");
    committed.commit().await.unwrap();
    assert_eq!(count(pool).await, 1);

    let mut rolled_back = pool.begin().await.unwrap();
    rolled_back.execute("INSERT INTO t VALUES (2)").await.unwrap();
    rolled_back.rollback().await.unwrap();
    assert_eq!(count(pool).await, 1);
}

#[tokio::test]
async fn databases_know_nothing_of_each_other() {
    let postgres = TestPostgres::shared().await;
    let (one, other) = (postgres.database().await, postgres.database().await);
    one.pool().execute("CREATE TABLE t (n int)").await.unwrap();
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('t') IS NOT NULL")
        .fetch_one(other.pool())
        .await
        .unwrap();
    assert!(!exists);
    assert_ne!(one.name(), other.name());
}

#[tokio::test]
async fn a_database_can_be_reached_by_its_url() {
    let database = TestPostgres::shared().await.database().await;
    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    let name: String =
        sqlx::query_scalar("SELECT current_database()").fetch_one(&mut connection).await.unwrap();
    assert_eq!(name, database.name());
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

/// A template of a name that no other run of this test on the same server has.
fn template(name: &str, filled: &Arc<AtomicUsize>, fails_at_first: bool) -> Template {
    let filled = Arc::clone(filled);
    Template::new(format!("{name}_{}", std::process::id()), move |options| {
        let attempt = filled.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut connection = PgConnection::connect_with(&options).await?;
            connection.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (7)").await?;
            if fails_at_first && attempt == 0 {
                connection.execute("SELECT * FROM nowhere").await?;
            }
            connection.close().await
        }
    })
}

#[tokio::test]
async fn a_template_is_filled_once_and_copied_for_each() {
    let filled = Arc::new(AtomicUsize::new(0));
    let template = template("once", &filled, false);
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
async fn what_a_failed_filling_left_is_not_taken_for_a_template() {
    let filled = Arc::new(AtomicUsize::new(0));
    let template = template("twice", &filled, true);
    let postgres = TestPostgres::shared().await;
    let mut first = JoinSet::new();
    {
        let (postgres, template) = (postgres.clone(), template.clone());
        first.spawn(async move { postgres.database_from(&template).await });
    }
    assert!(first.join_next().await.unwrap().unwrap_err().is_panic());
    let database = postgres.database_from(&template).await;
    assert_eq!(count(database.pool()).await, 1);
    assert_eq!(filled.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_dedicated_server_can_be_killed_and_keeps_what_was_committed() {
    let postgres = TestPostgres::dedicated().await;
    let database = postgres.database().await;
    database.pool().execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1)").await.unwrap();
    let mut open = database.pool().begin().await.unwrap();
    open.execute("INSERT INTO t VALUES (2)").await.unwrap();
    let id = postgres.server().id().await.unwrap();

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

#[tokio::test]
async fn a_dedicated_server_is_durable_unprivileged_and_can_be_paused() {
    let postgres = TestPostgres::dedicated().await;
    let database = postgres.database().await;
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(database.pool()).await.unwrap();
    assert_eq!(fsync, "on");

    let server = postgres.server().id().await.unwrap();
    assert_ne!(user_of(server), 0);

    let backend: i32 =
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(database.pool()).await.unwrap();
    let backend = u32::try_from(backend).unwrap();
    postgres.server().pause().await;
    until("the server and its session to stop", || async {
        [server, backend].map(state_of).iter().all(|state| *state == 'T').then_some(())
    })
    .await;
    postgres.server().resume().await;
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(database.pool()).await.unwrap();
    assert_eq!(one, 1);
}
