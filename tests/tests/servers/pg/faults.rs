//! The adapters under real faults of the server or the connection.

mod deadlocks;
mod interrupted_migration;
mod lost_responses;

use std::error::Error;
use std::time::Duration;

use broker_pg::DatabaseError;
use broker_ports::PortError;
use broker_tests::until;
use sqlx::PgPool;

const HOUR: Duration = Duration::from_hours(1);

/// The SQLSTATE, if the server answered.
pub(super) fn sqlstate(error: &PortError) -> Option<&str> {
    let database_error: &DatabaseError = error.source()?.downcast_ref()?;
    Some(database_error.sqlstate())
}

/// Waits until a session of this database waits for a lock.
pub(super) async fn wait_for_lock_waiter(pool: &PgPool) {
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock')";
    until("a session to wait for a lock", || async {
        let waits: bool = sqlx::query_scalar(waiting).fetch_one(pool).await.unwrap();
        waits.then_some(())
    })
    .await;
}
