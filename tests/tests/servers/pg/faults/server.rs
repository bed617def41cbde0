//! The server itself goes away: by a power cut, in good order, or for newcomers only.

use std::future::Future;
use std::time::Duration;

use broker_ports::{FailureClass, PortError};
use broker_tests::{DedicatedPostgres, PgProxy, TestPostgres, until};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection, PgPool};

use super::fault::Fault;
use super::operation::{Adapters, Operation};
use super::scene::{Scene, sqlstate};

/// A scene on a server that may be killed.
async fn dedicated() -> (DedicatedPostgres, Scene) {
    let postgres = TestPostgres::dedicated().await;
    let scene = Scene::on(&postgres).await;
    (postgres, scene)
}

/// A statement of its own, a commit of its own, and one that makes something new.
const OPERATIONS: [Operation; 3] = [Operation::UpdatePhase, Operation::Issue, Operation::Create];

/// The power fails when the proxy holds the request, before or after the server has seen it.
#[tokio::test]
async fn a_server_that_is_killed_around_a_commit_has_done_it_or_not_and_a_read_shows_which() {
    let (postgres, scene) = dedicated().await;
    for operation in OPERATIONS {
        for committed in [false, true] {
            let case = format!("{}, killed with committed = {committed}", operation.name());
            let alone = scene.picture_after(operation).await;
            scene.restore().await;
            let before = scene.picture().await;

            let proxy = PgProxy::to(scene.database()).await;
            let commits = move |request: &broker_tests::proxy::Request| {
                let verb = request.verb.as_str();
                verb == "COMMIT" || (!operation.is_transaction() && verb != "PREPARE")
            };
            let mut held = if committed {
                let held = proxy.script().first(commits).before_answer().hold();
                proxy.script().first(commits).before_answer().cut();
                held
            } else {
                proxy.script().first(commits).before_forward().hold()
            };
            let pool = proxy.pool();
            let adapters = Adapters::over(&pool);
            let (answer, ()) = tokio::join!(operation.run(&scene, &adapters), async {
                held.reached().await;
                postgres.server().kill().await;
                postgres.server().restart().await;
                held.release();
            });
            let error = answer.expect_err(&case);
            assert_eq!(error.class(), FailureClass::Unknown, "{case}: {error:?}");
            let expected = if committed { &alone } else { &before };
            scene.picture().await.assert_is(expected, &case);
            again(&scene, operation, committed, &case).await;
        }
    }
}

/// The caller asks again, knowing nothing.
async fn again(scene: &Scene, operation: Operation, happened: bool, case: &str) {
    let expected = if happened { operation.repeated() } else { Some(operation.done()) };
    let Some(expected) = expected else { return };
    let answer = operation.run(scene, &Adapters::over(scene.pool())).await.unwrap();
    assert_eq!(answer, expected, "{case}: the second attempt");
}

/// Runs an operation that has written everything and waits for a lock, and something else meanwhile.
async fn while_it_waits<T>(
    scene: &Scene,
    operation: Operation,
    meanwhile: impl Future<Output = T>,
) -> PortError {
    let faulty = Fault::waiting(scene).await;
    let adapters = Adapters::over(faulty.pool());
    let (answer, _) = tokio::join!(operation.run(scene, &adapters), async {
        let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock')";
        until("the operation to wait", || async {
            let waits: bool = sqlx::query_scalar(waiting).fetch_one(scene.pool()).await.unwrap();
            waits.then_some(())
        })
        .await;
        meanwhile.await
    });
    answer.expect_err("it never got its lock")
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_of_a_statement_has_not_done_it() {
    let (postgres, scene) = dedicated().await;
    for operation in OPERATIONS {
        scene.restore().await;
        let before = scene.picture().await;
        let error = while_it_waits(&scene, operation, async {
            postgres.server().kill().await;
            postgres.server().restart().await;
        })
        .await;
        let class = if operation.is_transaction() {
            FailureClass::Transient
        } else {
            FailureClass::Unknown
        };
        assert_eq!(error.class(), class, "{operation:?}: {error:?}");
        scene.picture().await.assert_is(&before, &operation.name());
        again(&scene, operation, false, &operation.name()).await;
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_takes_back_what_was_not_committed() {
    let (postgres, scene) = dedicated().await;
    let operation = Operation::UpdatePhase;
    scene.restore().await;
    let before = scene.picture().await;
    let error = while_it_waits(&scene, operation, postgres.server().stop()).await;
    assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Unknown, Some("57P01")));

    let away = hurried(scene.options());
    let error = operation.run(&scene, &Adapters::over(&away)).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Transient, "nothing was sent: {error:?}");

    postgres.server().restart().await;
    scene.picture().await.assert_is(&before, "after the shutdown");
    again(&scene, operation, false, "after the shutdown").await;
}

#[tokio::test]
async fn a_server_that_takes_no_more_connections_is_transient() {
    let (_postgres, scene) = dedicated().await;
    let role = "CREATE ROLE limited LOGIN PASSWORD 'limited' CONNECTION LIMIT 1;
        GRANT USAGE ON SCHEMA plexsphere TO limited;
        GRANT ALL ON ALL TABLES IN SCHEMA plexsphere TO limited";
    scene.pool().execute(role).await.unwrap();
    let options = scene.options().username("limited").password("limited");
    let taken = PgConnection::connect_with(&options).await.unwrap();
    let refused = PgConnection::connect_with(&options).await.unwrap_err();
    let said = refused
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .map(std::borrow::Cow::into_owned);
    assert_eq!(said.as_deref(), Some("53300"));

    let before = scene.picture().await;
    let pool = hurried(options);
    let adapters = Adapters::over(&pool);
    for operation in OPERATIONS {
        let error = operation.run(&scene, &adapters).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Transient, "{operation:?}: {error:?}");
    }
    scene.picture().await.assert_is(&before, "nobody was let in");
    taken.close().await.unwrap();
    let done = until("the only connection", || async {
        Operation::UpdatePhase.run(&scene, &adapters).await.ok()
    });
    assert_eq!(done.await, Operation::UpdatePhase.done());
}

fn hurried(options: PgConnectOptions) -> PgPool {
    PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_millis(500))
        .connect_lazy_with(options)
}
