//! The pool after a database stopped answering without closing its connections.

use std::time::Duration;

use broker_pg::test_idle_connections;
use broker_tests::{PgProxy, TestPostgres};
use futures::future::{join_all, try_join_all};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};
use tokio::time::timeout;

const CONNECTIONS: u32 = 20;

fn pool_through(proxy: &PgProxy) -> PgPool {
    let options = PgPoolOptions::new().max_connections(CONNECTIONS);
    test_idle_connections(options.acquire_timeout(Duration::from_secs(20))).connect_lazy_with(proxy.options())
}

async fn assert_all_connections_work(pool: &PgPool) {
    let held = try_join_all((0..CONNECTIONS).map(|_| pool.acquire())).await;
    for mut connection in held.expect("the pool has lost connections") {
        connection.execute("SELECT 1").await.unwrap();
    }
}

#[tokio::test]
async fn pool_recovers_from_unanswered_cancelled_statements() {
    let database = TestPostgres::shared().await.database().await;
    let proxy = PgProxy::start(&database).await;
    let pool = pool_through(&proxy);
    let held = proxy.script().each(|request| request.target == "SELECT 2").before_forward().hold();
    let statements = (0..CONNECTIONS).map(|_| pool.execute("SELECT 2"));
    // All statements must still wait at the deadline; a closed connection would fail earlier.
    timeout(Duration::from_secs(3), join_all(statements)).await.unwrap_err();
    assert_eq!(proxy.script().requests().len(), CONNECTIONS as usize);

    assert_all_connections_work(&pool).await;
    drop(held);
}

#[tokio::test]
async fn pool_recovers_from_silent_idle_connections() {
    let database = TestPostgres::shared().await.database().await;
    let proxy = PgProxy::start(&database).await;
    let pool = pool_through(&proxy);
    assert_all_connections_work(&pool).await;
    broker_tests::until("all connections to be idle for a while", || async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        (pool.num_idle() == CONNECTIONS as usize).then_some(())
    })
    .await;
    proxy.go_silent();

    assert_all_connections_work(&pool).await;
}
