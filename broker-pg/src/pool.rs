//! Pool options. The pool belongs to the embedder; these are the options that the binary uses.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

/// A connection that was idle for longer is tested before it is used.
const TEST_AFTER: Duration = Duration::from_secs(1);

/// How long a test may take before the connection counts as dead.
const TEST_WITHIN: Duration = Duration::from_secs(2);

/// Options for a pool that survives a database that stops answering without closing its connections.
///
/// - A returned connection is tested within two seconds, and discarded if it does not answer. The driver tests it as
///   well, but without a timeout, and keeps its slot meanwhile: after a network that dropped packets, statements that
///   were cancelled by their deadlines would occupy the whole pool.
/// - A connection is tested before use only if it was idle for more than a second, also within two seconds. The driver's
///   default tests each time, which doubles the round trips; a pass sends about twenty statements. A statement on a
///   dead connection fails and is retried like any other outage.
///
/// The driver's own test on return still follows ours. A connection that dies between the two, within one round trip,
/// keeps its slot until the operating system gives the connection up.
///
/// ```
/// use broker_pg::resilient;
/// use sqlx::postgres::PgPoolOptions;
///
/// let options = resilient(PgPoolOptions::new().max_connections(20));
/// # assert_eq!(options.get_max_connections(), 20);
/// ```
pub fn resilient(options: PgPoolOptions) -> PgPoolOptions {
    options
        .test_before_acquire(false)
        .before_acquire(|connection, resting| {
            Box::pin(async move {
                if resting.idle_for > TEST_AFTER {
                    test(connection).await?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move { test(connection).await.map(|()| true) })
        })
}

/// An error makes the pool drop the connection without a farewell, which could hang as well.
async fn test(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    timeout(TEST_WITHIN, connection.ping()).await.unwrap_or_else(|_| {
        let message = "the connection did not answer in time";
        Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, message)))
    })
}
