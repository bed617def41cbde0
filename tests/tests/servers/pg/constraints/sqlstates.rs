//! The SQLSTATEs that the adapters classify, as a real server says them.

use broker_domain::CloudId;
use broker_pg::{DatabaseError, PgNeighbours, PgTokenIssuer};
use broker_ports::{CloudResolver, FailureClass, PortError, TokenIssuer};
use broker_testkit::builders::resource;
use broker_tests::TestDatabase;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use std::error::Error;
use uuid::Uuid;

use crate::servers::pg::fresh_database;

fn pool(options: PgConnectOptions) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect_lazy_with(options)
}

/// A read and a write, so that both ways through the classes are gone.
async fn read(pool: &PgPool) -> PortError {
    let nobodys = CloudId::new(Uuid::from_u128(0x00dd)).unwrap();
    CloudResolver::resolve(&PgNeighbours::new(pool.clone()), nobodys).await.unwrap_err()
}

async fn write(pool: &PgPool) -> PortError {
    PgTokenIssuer::new(pool.clone()).close(resource().id()).await.unwrap_err()
}

/// The class, and the SQLSTATE that the error keeps for whoever looks closer.
fn verdict(error: &PortError) -> (FailureClass, &str) {
    let said: &DatabaseError = error.source().and_then(|source| source.downcast_ref()).unwrap();
    (error.class(), said.sqlstate())
}

#[tokio::test]
async fn a_role_without_rights_is_rejected() {
    let database = fresh_database().await;
    let role = format!("stranger_{}", database.name());
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD 'stranger'");
    database.pool().execute(sqlx::AssertSqlSafe(create)).await.unwrap();
    let stranger = pool(database.options().username(&role).password("stranger"));
    let refused = read(&stranger).await;
    assert_eq!(verdict(&refused), (FailureClass::Rejected, "42501"));
    assert!(refused.to_string().contains("grant it the schema plexsphere"), "{refused}");
    stranger.close().await;
    database.pool().execute(sqlx::AssertSqlSafe(format!("DROP ROLE {role}"))).await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_rejected() {
    let database = fresh_database().await;
    let refused = read(&pool(database.options().password("a guess"))).await;
    assert_eq!(verdict(&refused), (FailureClass::Rejected, "28P01"));
    assert_eq!(refused.to_string(), "the database refused user or password");
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_rejected() {
    let database = fresh_database().await;
    let refused = read(&pool(database.options().database("nowhere"))).await;
    assert_eq!(verdict(&refused), (FailureClass::Rejected, "3D000"));
    assert_eq!(refused.to_string(), "there is no such database");
}

#[tokio::test]
async fn a_schema_that_was_never_migrated_is_rejected() {
    let database = broker_tests::TestPostgres::shared().await.database().await;
    let refused = read(database.pool()).await;
    assert_eq!(verdict(&refused), (FailureClass::Rejected, "42P01"));
    assert!(refused.to_string().contains("bring its schema up to date"), "{refused}");
}

#[tokio::test]
async fn a_database_that_only_reads_is_transient() {
    let database = fresh_database().await;
    let standby = pool(database.options().options([("default_transaction_read_only", "on")]));
    assert_eq!(verdict(&write(&standby).await), (FailureClass::Transient, "25006"));
}

/// A transaction that holds what the write needs.
async fn holder(database: &TestDatabase) -> PgConnection {
    let mut holder = PgConnection::connect_with(&database.options()).await.unwrap();
    holder.execute("BEGIN; LOCK TABLE plexsphere.bootstrap_token_ledgers").await.unwrap();
    holder
}

#[tokio::test]
async fn a_statement_timeout_is_transient() {
    let database = fresh_database().await;
    let holder = holder(&database).await;
    let hurried = pool(database.options().options([("statement_timeout", "50ms")]));
    assert_eq!(verdict(&write(&hurried).await), (FailureClass::Transient, "57014"));
    drop(holder);
}

#[tokio::test]
async fn a_lock_timeout_is_transient() {
    let database = fresh_database().await;
    let holder = holder(&database).await;
    let hurried = pool(database.options().options([("lock_timeout", "50ms")]));
    assert_eq!(verdict(&write(&hurried).await), (FailureClass::Transient, "55P03"));
    drop(holder);
}

#[tokio::test]
async fn a_full_disk_is_transient() {
    let database = fresh_database().await;
    let full = "CREATE FUNCTION plexsphere.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON plexsphere.bootstrap_token_ledgers
        FOR EACH ROW EXECUTE FUNCTION plexsphere.full_disk()";
    database.pool().execute(full).await.unwrap();
    assert_eq!(verdict(&write(database.pool()).await), (FailureClass::Transient, "53100"));
}

/// Whoever is told so before a commit was sent knows that nothing was stored.
#[tokio::test]
async fn a_session_that_is_ended_before_its_commit_is_transient() {
    let database = fresh_database().await;
    let ended = "CREATE FUNCTION plexsphere.ended() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
        CREATE TRIGGER ended BEFORE INSERT ON plexsphere.bootstrap_token_ledgers
        FOR EACH ROW EXECUTE FUNCTION plexsphere.ended()";
    database.pool().execute(ended).await.unwrap();
    assert_eq!(verdict(&write(database.pool()).await), (FailureClass::Transient, "57P01"));
}
