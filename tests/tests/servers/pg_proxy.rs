//! The Postgres proxy against the real server: what happens on the wire has the effects that a
//! script promises.

use broker_tests::{PgProxy, TestDatabase, TestPostgres};
use sqlx::{Executor, PgPool};

use super::processes::{Killed, victim};

async fn database() -> TestDatabase {
    let database = TestPostgres::shared().await.database().await;
    database.pool().execute("CREATE TABLE t (n int)").await.unwrap();
    database
}

/// Counted past the proxy.
async fn count(database: &TestDatabase) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(database.pool()).await.unwrap()
}

async fn insert(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO t VALUES ($1)").bind(1).execute(&mut *transaction).await?;
    transaction.commit().await
}

#[tokio::test]
async fn an_unscripted_proxy_only_counts() {
    let database = database().await;
    let proxy = PgProxy::to(&database).await;
    let pool = proxy.pool();
    insert(&pool).await.unwrap();
    insert(&pool).await.unwrap();
    assert_eq!(count(&database).await, 2);

    let seen = proxy.script().seen();
    let verbs: Vec<_> = seen.iter().map(|request| request.verb.as_str()).collect();
    // The second time the statement is known by its name.
    assert_eq!(verbs, ["BEGIN", "PREPARE", "INSERT", "COMMIT", "BEGIN", "INSERT", "COMMIT"]);
    assert_eq!(seen[5].target, "INSERT INTO t VALUES ($1)");
    assert_eq!(seen[5].number, 6);
}

/// Kills a process that inserts a row, before or after its request of this number.
async fn insert_and_die(number: usize, after: bool) -> i64 {
    let database = database().await;
    let proxy = PgProxy::to(&database).await;
    let client = Killed(victim(&["insert", proxy.url()]).spawn().unwrap());
    let rule = proxy.script().request(number);
    let at = if after { rule.before_answer() } else { rule.before_forward() };
    at.kill(client.0.id());
    let output = wait(client).await;
    assert!(output.is_empty(), "it lived on and said {output:?}");
    let seen = proxy.script().seen();
    assert_eq!(seen.len(), number, "it went on after its death: {seen:?}");
    assert!(seen.iter().all(|request| request.number <= number));
    count(&database).await
}

/// Waits for the end of a process without blocking the proxy, and gives what it said.
async fn wait(mut client: Killed) -> String {
    let wait = move || std::io::read_to_string(client.0.stdout.take().unwrap()).unwrap();
    tokio::task::spawn_blocking(wait).await.unwrap()
}

#[tokio::test]
async fn a_process_can_be_killed_around_each_of_its_requests() {
    // BEGIN, PREPARE, INSERT, COMMIT.
    for number in 1..=4 {
        assert_eq!(insert_and_die(number, false).await, 0, "before request {number}");
        let committed = i64::from(number == 4);
        assert_eq!(insert_and_die(number, true).await, committed, "after request {number}");
    }
}
