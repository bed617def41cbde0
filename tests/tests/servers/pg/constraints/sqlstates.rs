//! The SQLSTATEs that the adapters classify, as a real server says them. Deadlocks and lost races have tests of their own.

use broker_domain::CloudId;
use broker_pg::{PgNeighbours, PgTokenIssuer};
use broker_ports::FailureClass::{Rejected, Transient};
use broker_ports::{CloudResolver, PortError, TokenIssuer};
use broker_testkit::builders::resource;
use broker_tests::TestPostgres;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};
use uuid::Uuid;

use crate::servers::pg::faults::sqlstate;
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

const PASSWORD: &str = "hunter2 is not the password";

#[tokio::test]
async fn database_that_cannot_be_used_is_rejected_in_words_that_say_why() {
    let database = fresh_database().await;
    let empty = TestPostgres::shared().await.database().await;
    let role = format!("stranger_{}", database.name());
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'");
    database.pool().execute(AssertSqlSafe(create)).await.unwrap();
    let options = || database.options();
    for (why, options, state, words) in [
        ("no rights", options().username(&role).password(PASSWORD), "42501", "grant it the schema"),
        ("a wrong password", options().password(PASSWORD), "28P01", "refused user or password"),
        ("no such database", options().database("nowhere"), "3D000", "there is no such database"),
        ("never migrated", empty.options(), "42P01", "bring its schema up to date"),
    ] {
        let pool = pool(options);
        let refused = read(&pool).await;
        assert_eq!((refused.class(), sqlstate(&refused)), (Rejected, Some(state)), "{why}");
        assert!(refused.to_string().contains(words), "{why}: {refused}");
        assert!(!format!("{refused:?}").contains(PASSWORD), "{why}: {refused:?}");
        pool.close().await;
    }
    database.pool().execute(AssertSqlSafe(format!("DROP ROLE {role}"))).await.unwrap();
}

/// The last two are told so before a commit was sent, and know that nothing was stored.
#[tokio::test]
async fn what_the_server_takes_back_by_itself_is_transient() {
    let failing = |with: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION plexsphere.failing() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN {with}; RETURN NEW; END $$;
            CREATE OR REPLACE TRIGGER failing BEFORE INSERT ON plexsphere.bootstrap_token_ledgers
            FOR EACH ROW EXECUTE FUNCTION plexsphere.failing()"
        )
    };
    let database = fresh_database().await;
    let mut holder = PgConnection::connect_with(&database.options()).await.unwrap();
    for (setting, value, with, state) in [
        ("default_transaction_read_only", "on", "NULL", "25006"),
        ("statement_timeout", "50ms", "PERFORM pg_sleep(600)", "57014"),
        ("lock_timeout", "50ms", "PERFORM pg_advisory_xact_lock(4711)", "55P03"),
        ("work_mem", "4MB", "RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'", "53100"),
        ("work_mem", "4MB", "PERFORM pg_terminate_backend(pg_backend_pid())", "57P01"),
    ] {
        holder.execute("SELECT pg_advisory_lock(4711)").await.unwrap();
        database.pool().execute(AssertSqlSafe(failing(with))).await.unwrap();
        let error = write(&pool(database.options().options([(setting, value)]))).await;
        assert_eq!((error.class(), sqlstate(&error)), (Transient, Some(state)), "{error:?}");
    }
}
