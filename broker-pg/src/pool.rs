//! How a pool hands out connections. The pool is the embedder's; this is what we would choose.

use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::PgPoolOptions;

/// Whoever rested for longer is asked whether he is still there.
const RESTED: Duration = Duration::from_secs(1);

/// Lets a pool ask a connection whether it is still there only after a rest of a second.
///
/// A pool that is left as it comes asks each time, which makes two round trips of every statement; a pass makes about
/// twenty. Of a connection that was in use a moment ago the next statement tells as well: it fails, and whoever sent it
/// tries again, as after any other outage.
///
/// ```
/// use broker_pg::ask_after_rest;
/// use sqlx::postgres::PgPoolOptions;
///
/// let options = ask_after_rest(PgPoolOptions::new().max_connections(20));
/// # assert_eq!(options.get_max_connections(), 20);
/// ```
pub fn ask_after_rest(options: PgPoolOptions) -> PgPoolOptions {
    options.test_before_acquire(false).before_acquire(|connection, resting| {
        Box::pin(async move {
            if resting.idle_for > RESTED {
                connection.ping().await?;
            }
            Ok(true)
        })
    })
}
