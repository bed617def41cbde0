//! Migrations that were cut off half way: wherever it was, the next one finishes what is left.

use std::sync::atomic::{AtomicBool, Ordering};

use broker_pg::PgStore;
use broker_pg::migrate::{self, MIGRATIONS, MigrateError};
use broker_ports::{FailureClass, Repository};
use broker_testkit::builders::resource;
use broker_tests::proxy::Request;
use broker_tests::{PgProxy, TestDatabase, TestPostgres};
use sqlx::PgPool;

use super::sqlstate;
use crate::servers::pg::migrations::dump::dump;

async fn with_neighbours() -> TestDatabase {
    let database = TestPostgres::shared().await.database().await;
    migrate::reference_up(database.pool()).await.unwrap();
    database
}

async fn applied(pool: &PgPool) -> usize {
    let status = migrate::status(pool).await.unwrap();
    status.iter().filter(|line| line.applied_at.is_some()).count()
}

/// Before which message the connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Script,
    ScriptsAnswer,
    Commit,
    CommitsAnswer,
}

/// What the migrator sends to apply this migration: the first and the last step of its script, which are transactions
/// unless there is only one step.
fn first_and_last(script: &'static str) -> [&'static str; 2] {
    let first = script.split("-- step: ").next().unwrap();
    let last = script.rsplit("-- step: ").next().unwrap();
    [first, last.split_once('\n').filter(|_| last.len() < script.len()).map_or(first, |it| it.1)]
}

/// Every migration, cut off before its first and its last step, after it, before its commit and after it.
#[tokio::test]
async fn migration_that_is_cut_off_is_finished_by_the_next_run() {
    let complete = with_neighbours().await;
    migrate::up(complete.pool()).await.unwrap();
    let expected = dump(complete.pool()).await;

    let database = with_neighbours().await;
    let mut cases = 0;
    for (number, migration) in MIGRATIONS.iter().enumerate() {
        let moments =
            [Moment::Script, Moment::ScriptsAnswer, Moment::Commit, Moment::CommitsAnswer];
        for (step, moment) in
            first_and_last(migration.up).into_iter().flat_map(|step| moments.map(|it| (step, it)))
        {
            let case = format!("{}, cut off at the {moment:?} of {step}", migration.name);
            migrate::down(database.pool(), migration.version - 1).await.unwrap();
            cut_off(&database, step, moment).await;
            let left = applied(database.pool()).await;
            assert!((number..=number + 1).contains(&left), "{case}");
            let next = migrate::up(database.pool()).await.unwrap();
            assert_eq!(next.len(), MIGRATIONS.len() - left, "{case}");
            assert_eq!(dump(database.pool()).await, expected, "{case}");
            cases += 1;
        }
    }
    assert_eq!(cases, MIGRATIONS.len() * 8);
}

async fn cut_off(database: &TestDatabase, step: &'static str, moment: Moment) {
    let proxy = PgProxy::to(database).await;
    let is_step = move |target: &str| target == step;
    let rules = proxy.script();
    // The commit that ends this step, not one of those before it. A step that is no transaction has none, and is cut at
    // the next one.
    let passed = AtomicBool::new(false);
    let is_commit = move |request: &Request| {
        passed.fetch_or(is_step(&request.target), Ordering::SeqCst);
        request.verb == "COMMIT" && passed.load(Ordering::SeqCst)
    };
    let is_step = move |request: &Request| is_step(&request.target);
    match moment {
        Moment::Script => rules.first(is_step).before_forward().cut(),
        Moment::ScriptsAnswer => rules.first(is_step).before_answer().cut(),
        Moment::Commit => rules.first(is_commit).before_forward().cut(),
        Moment::CommitsAnswer => rules.first(is_commit).before_answer().cut(),
    }
    migrate::up(&proxy.pool()).await.unwrap_err();
}

#[tokio::test]
async fn a_store_on_half_a_schema_refuses_and_says_what_to_do() {
    let database = with_neighbours().await;
    migrate::up(database.pool()).await.unwrap();
    for version in MIGRATIONS.iter().map(|migration| migration.version).rev() {
        migrate::down(database.pool(), version - 1).await.unwrap();
        let error = migrate::ensure_current(database.pool()).await.unwrap_err();
        let told = matches!(error, MigrateError::Older { .. } | MigrateError::Missing { .. });
        assert!(told, "{error}");
        let store = PgStore::new(database.pool().clone());
        let refused = store.create(&resource().admitted()).await.unwrap_err();
        assert_eq!(refused.class(), FailureClass::Rejected, "{refused:?}");
        assert!(
            matches!(sqlstate(&refused), Some("42P01" | "42703" | "42883" | "42704")),
            "{refused:?}"
        );
        assert!(refused.to_string().contains("bring its schema up to date"), "{refused}");
    }
}
