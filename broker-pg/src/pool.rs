//! Pool options. The embedder owns the pool; the binary uses these options.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

/// Idle time after which a connection is tested before use.
const TEST_AFTER_IDLE: Duration = Duration::from_secs(1);

/// Timeout of a connection test.
const TEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Pool options for a database that may stop responding without closing its connections.
///
/// - A returned connection is tested within two seconds and discarded if it does not respond. The driver tests it,
///   too, but without a timeout, and the connection keeps its slot meanwhile. After a network that dropped packets,
///   statements that were cancelled by their deadlines would occupy the whole pool.
/// - Before use, a connection is tested only after more than a second of idle time, also within two seconds. The
///   driver's default tests each time, which doubles the round trips; a pass sends about twenty statements. A
///   statement on a dead connection fails and is retried like any other outage.
///
/// The driver's own test still follows this one. A connection that dies between the two, within one round trip,
/// keeps its slot until the operating system closes it.
///
/// ```
/// use broker_pg::test_idle_connections;
/// use sqlx::postgres::PgPoolOptions;
///
/// let options = test_idle_connections(PgPoolOptions::new().max_connections(20));
/// # assert_eq!(options.get_max_connections(), 20);
/// ```
pub fn test_idle_connections(options: PgPoolOptions) -> PgPoolOptions {
    options
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for > TEST_AFTER_IDLE {
                    test_connection(connection).await?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move { test_connection(connection).await.map(|()| true) })
        })
}

/// On an error the pool drops the connection without a protocol-level close, which could also hang.
async fn test_connection(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    timeout(TEST_TIMEOUT, connection.ping()).await.unwrap_or_else(|_| {
        let message = "the connection test timed out";
        Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, message)))
    })
}
