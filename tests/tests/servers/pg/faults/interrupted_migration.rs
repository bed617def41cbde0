//! The next run completes an interrupted migration.

use std::sync::atomic::{AtomicBool, Ordering};

use broker_pg::migrate::{self, MIGRATIONS};
use broker_tests::proxy::Request;
use broker_tests::{PgProxy, TestPostgres};

use crate::servers::pg::fresh_database;
use crate::servers::pg::migrations::dump::dump;

/// The texts of a migration's first and last step, as the migrator sends them.
fn first_and_last(script: &'static str) -> [&'static str; 2] {
    let first = script.split("-- step: ").next().unwrap();
    let last = script.rsplit("-- step: ").next().unwrap();
    [first, last.split_once('\n').filter(|_| last.len() < script.len()).map_or(first, |it| it.1)]
}

/// Interrupts every migration at its first and its last step: before and after the step, and before and
/// after its commit.
#[tokio::test]
async fn interrupted_migration_is_completed_by_the_next_run() {
    let expected = dump(fresh_database().await.pool()).await;
    let database = TestPostgres::shared().await.database().await;
    let pool = database.pool();
    migrate::reference_up(pool).await.unwrap();
    for (number, migration) in MIGRATIONS.iter().enumerate() {
        let moments = [(false, false), (false, true), (true, false), (true, true)];
        for (step, (at_commit, answered)) in
            first_and_last(migration.up).into_iter().flat_map(|step| moments.map(|it| (step, it)))
        {
            let case = format!("commit {at_commit}, answered {answered}: {step}");
            migrate::down(pool, migration.version - 1).await.unwrap();
            let proxy = PgProxy::start(&database).await;
            // The commit that ends this step, not an earlier one. A step without a transaction has
            // no commit and is cut at the next one.
            let passed = AtomicBool::new(false);
            let rule = proxy.script().first(move |request: &Request| {
                let is_step = request.target == step;
                let passed = passed.fetch_or(is_step, Ordering::SeqCst);
                if at_commit { passed && request.verb == "COMMIT" } else { is_step }
            });
            if answered {
                rule.before_response().cut();
            } else {
                rule.before_forward().cut();
            }
            migrate::up(&proxy.pool()).await.expect_err(&case);

            let status = migrate::status(pool).await.unwrap();
            let applied = status.iter().filter(|line| line.applied_at.is_some()).count();
            assert!((number..=number + 1).contains(&applied), "{case}");
            let next = migrate::up(pool).await.unwrap();
            assert_eq!(next.len(), MIGRATIONS.len() - applied, "{case}");
            assert_eq!(dump(pool).await, expected, "{case}");
        }
    }
}
