//! Polling for conditions without a notification.

use std::{
    fmt::Display,
    future::Future,
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(20);

/// Longer than any condition takes on a busy machine: only a failed test reaches it.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Polls until the result is `Some`.
///
/// # Panics
///
/// After five minutes.
pub async fn until<T, F>(what: impl Display, mut poll: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let result = until_or(&mut poll).await;
    result.unwrap_or_else(|| panic!("no result after {} s: {what}", TIMEOUT.as_secs()))
}

/// Like [`until`], for a caller with its own error message: `None` after five minutes.
pub(crate) async fn until_or<T, F>(mut poll: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    while started.elapsed() < TIMEOUT {
        if let Some(result) = poll().await {
            return Some(result);
        }
        tokio::time::sleep(POLL).await;
    }
    None
}

/// Runs async work where `await` is impossible, such as in `drop`: on a separate thread and
/// runtime, because the caller's runtime may be blocked. `None` after the timeout.
pub(crate) fn in_own_runtime<T: Send>(
    limit: Duration,
    work: impl Future<Output = T> + Send,
) -> Option<T> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async { tokio::time::timeout(limit, work).await.ok() })
    };
    std::thread::scope(|scope| scope.spawn(run).join().ok().flatten())
}
