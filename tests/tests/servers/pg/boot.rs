//! Starting on a database that is not as it should be: one line says what is wrong, and no password stands in it.

use std::error::Error;
use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use broker_pg::migrate::{self, MIGRATIONS, REFERENCE};
use broker_tests::{TestDatabase, TestPostgres};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor};

use super::fresh_database;
use crate::servers::processes::{Killed, victim};

const WRONG: &str = "hunter2 is not the password";

/// What a composition root prints when it cannot start.
fn line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line = format!("{line}: {cause}");
        source = cause.source();
    }
    line
}

/// What is said of a database that is reached in this way; `None` if all is well.
async fn refusal(options: PgConnectOptions) -> Option<String> {
    // Whoever is not there is asked again and again until this is over.
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(2));
    let error = migrate::ensure_current(&pool.connect_lazy_with(options)).await.err()?;
    for text in [line(&error), format!("{error:?}")] {
        assert!(!text.contains(WRONG), "{text}");
    }
    Some(line(&error))
}

/// A port on which nobody listens.
fn nobody() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A role that may connect and nothing else.
async fn stranger(database: &TestDatabase) -> String {
    let name = format!("stranger_{}", database.name());
    let create = format!("CREATE ROLE \"{name}\" LOGIN PASSWORD '{WRONG}'");
    database.pool().execute(AssertSqlSafe(create)).await.unwrap();
    name
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_named_in_one_line() {
    let database = fresh_database().await;
    let options = || database.options();
    let stranger = stranger(&database).await;
    let unreadable = "the migrations of the database cannot be read or written";
    for (why, options, said) in [
        ("all is well", options(), None),
        (
            "a wrong password",
            options().password(WRONG),
            Some("the database refused user or password: SQLSTATE 28P01"),
        ),
        (
            "nobody of that name",
            options().username("nobody").password(WRONG),
            Some("the database refused user or password: SQLSTATE 28P01"),
        ),
        (
            "no such database",
            options().database("nowhere"),
            Some("there is no such database: SQLSTATE 3D000"),
        ),
        (
            "nobody listens",
            options().port(nobody()).password(WRONG),
            Some("no connection to the database was to be had in time"),
        ),
        (
            "a role without rights",
            options().username(&stranger).password(WRONG),
            Some(
                "the database role may not do that; grant it the schema plexsphere: SQLSTATE 42501",
            ),
        ),
    ] {
        let said = said.map(|said| format!("{unreadable}: {said}"));
        assert_eq!(refusal(options).await, said, "{why}");
    }
    let drop = format!("DROP ROLE \"{stranger}\"");
    database.pool().execute(AssertSqlSafe(drop)).await.unwrap();
}

#[tokio::test]
async fn ten_processes_that_start_at_once_apply_each_migration_once() {
    let database = TestPostgres::shared().await.database().await;
    let mut started: Vec<_> =
        (0..10).map(|_| Killed(victim(&["migrate", &database.url()]).spawn().unwrap())).collect();
    let mut applied = tokio::task::spawn_blocking(move || {
        let mut applied = Vec::new();
        for process in &mut started {
            let mut said = String::new();
            process.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(process.0.wait().unwrap().success(), "{said}");
            applied.extend(said.lines().map(|version| version.parse::<u32>().unwrap()));
        }
        applied
    })
    .await
    .unwrap();
    applied.sort_unstable();
    let mut all: Vec<_> =
        REFERENCE.iter().chain(MIGRATIONS).map(|migration| migration.version).collect();
    all.sort_unstable();
    assert_eq!(applied, all, "each was applied once, by whoever came first");
}
