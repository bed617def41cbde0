//! Follows one kind: list, then watch, until the kind is untracked.
//!
//! ```text
//!                    ┌── failed: wait ──┐
//!                    ▼                  │
//!      ┌────────▶  list ────────────────┘
//!      │             │ version
//!      │             ▼
//!      │           watch ◀── ended at the requested timeout ────┐
//!      │             ├──────────────────────────────────────────┘
//!      │             ├── ended early, or older than `relist_after` ───┐
//!      │             ├── failed, expired, or version went back: wait ─┤
//!      └─────────────┴── another cluster ─────────────────────────────┘
//! ```
//!
//! A watch resumes from its version only if it ended at the requested timeout: the API server was running then, so
//! the version belongs to its store. After every other end the follower lists the kind. The API
//! server may run on a restored store, where versions are lower or are reused for other changes. A list detects that;
//! a version cannot (decision 39).
//!
//! The follower reads the cluster identity before each list and each watch. The identity is valid while the kind is
//! warm, so a caller can use it without a request.
//!
//! While the follower waits, its kind is cold, and observations use paged lists.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::index::{Listing, VersionWentBack};
use super::options::CacheOptions;
use super::page;
use super::requests::{self, FollowError};
use super::tracked::TrackedKind;
use crate::hints::HintBroadcast;

/// Follows a kind until the future is dropped.
pub(super) async fn follow(
    client: &Client,
    tracked: &TrackedKind,
    options: &CacheOptions,
    (hints, pages): (&HintBroadcast, &Semaphore),
) {
    let mut backoff = Backoff::new(options);
    loop {
        let Err(error) =
            list_or_watch(client, tracked, options, (hints, pages), &mut backoff).await
        else {
            continue;
        };
        tracked.watch_lost();
        let wait = backoff.next(retry_after(&error));
        // Warns once per outage. An expired version is normal operation.
        if backoff.is_first() && !matches!(error, FollowError::Expired) {
            tracing::warn!(kind = tracked.path(), ?wait, %error, "watch interrupted");
        } else {
            tracing::debug!(kind = tracked.path(), ?wait, %error, "watch interrupted");
        }
        tokio::time::sleep(wait).await;
    }
}

/// One list, or one watch from start to end.
async fn list_or_watch(
    client: &Client,
    tracked: &TrackedKind,
    options: &CacheOptions,
    (hints, pages): (&HintBroadcast, &Semaphore),
    backoff: &mut Backoff,
) -> Result<(), FollowError> {
    tracked.start_on_cluster(requests::identity(client, options).await?);
    match tracked.version() {
        None => list(client, tracked, options, (hints, pages)).await,
        Some(version) => watch(client, tracked, &version, options, hints, backoff).await,
    }
}

/// Lists the kind page by page, and replaces the index only with a complete list.
///
/// A page has at most `page_size` objects and `page_bytes`. The follower discards a larger page and requests it again
/// with half as many objects. Later pages keep that size.
async fn list(
    client: &Client,
    tracked: &TrackedKind,
    options: &CacheOptions,
    (hints, pages): (&HintBroadcast, &Semaphore),
) -> Result<(), FollowError> {
    tracked.start_list();
    let endpoint = tracked.endpoint();
    let mut listing = Listing::default();
    let (mut after, mut size) = (None, options.page_size);
    loop {
        // The semaphore is never closed. The permit is held until the page text is dropped.
        let _page_permit = pages.acquire().await;
        let text = requests::list(client, endpoint, (after.as_deref(), size), options).await?;
        let Some(text) = text else {
            if size <= 1 {
                return Err(FollowError::Unreadable(None));
            }
            size /= 2;
            tracing::debug!(
                kind = tracked.path(),
                size,
                "the page is too large; requesting smaller pages"
            );
            continue;
        };
        let page = page::read_page(&text, |object| listing.add(object, endpoint.mode));
        let page = page.map_err(|error| FollowError::Unreadable(Some(error)))?;
        after = page.next.filter(|next| !next.is_empty());
        if after.is_none() {
            for resource in tracked.replace(listing, page.resource_version) {
                hints.send(resource);
            }
            return Ok(());
        }
    }
}

/// Watches until the server ends the watch, the watch fails, or the last list is older than `relist_after`.
async fn watch(
    client: &Client,
    tracked: &TrackedKind,
    version: &str,
    options: &CacheOptions,
    hints: &HintBroadcast,
    backoff: &mut Backoff,
) -> Result<(), FollowError> {
    let started = Instant::now();
    let mut watch = requests::watch(client, tracked.endpoint(), version, options).await?;
    tracked.watch_started();
    let relist_at = tracked.relist_at(options.relist_after).unwrap_or_else(Instant::now);
    let mut idle = true;
    loop {
        let Ok(line) = timeout_at(relist_at, watch.next()).await else {
            tracked.require_relist();
            return Ok(());
        };
        let Some(line) = line? else { break };
        let changed =
            tracked.apply(line.event()?).map_err(|VersionWentBack| FollowError::VersionWentBack)?;
        // A watch that still delivers after the longest wait is healthy, so the back-off resets. A watch that
        // repeatedly ends sooner keeps its back-off, because each end costs a list.
        if started.elapsed() >= options.longest_wait {
            backoff.reset();
        }
        idle = false;
        if let Some(resource) = changed {
            hints.send(resource);
        }
    }
    // The server counts from the arrival of the request, which is later than `started`. A regular end therefore never
    // counts as early.
    let ended_early = started.elapsed() < options.watch_length();
    if ended_early {
        tracing::debug!(kind = tracked.path(), "the watch ended early");
        tracked.watch_lost();
    }
    if ended_early || idle {
        tokio::time::sleep(backoff.next(None)).await;
    }
    Ok(())
}

const fn retry_after(error: &FollowError) -> Option<Duration> {
    match error {
        FollowError::Refused { retry_after, .. } => *retry_after,
        FollowError::Expired
        | FollowError::VersionWentBack
        | FollowError::Silent(_)
        | FollowError::Broken(_)
        | FollowError::Unreadable(_) => None,
    }
}

/// Exponential back-off with jitter, so that many brokers do not reconnect at once.
struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    jitter: RandomState,
}

impl Backoff {
    fn new(options: &CacheOptions) -> Self {
        let (first, longest) = (options.first_wait, options.longest_wait);
        Self { first, longest, failures: 0, jitter: RandomState::new() }
    }

    /// The next wait: between half and all of the current back-off, and at least the server's Retry-After.
    fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let backoff = self.first.saturating_mul(1 << self.failures.min(20)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        // Needs no reproducible seed: it only spreads the load on the server.
        let thousandths = 500 + self.jitter.hash_one(self.failures) % 501;
        let wait = backoff / 1000 * u32::try_from(thousandths).unwrap_or(1000);
        retry_after.map_or(wait, |requested| requested.max(wait))
    }

    const fn is_first(&self) -> bool {
        self.failures == 1
    }

    const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests;
