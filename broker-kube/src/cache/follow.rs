//! Follows one kind: list, then watch, until the kind is dropped.
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
//! its store is the one that the version belongs to. After every other end the follower lists the kind. The API
//! server may run on a restored store, where versions are lower or are reused for other changes. A list detects that;
//! a version cannot (decision 39).
//!
//! The follower reads the cluster identity before each list and each watch. The identity is valid while the kind is
//! warm, so a caller needs no request for it.
//!
//! A waiting follower blocks no caller: its kind is cold, and observations use paged lists.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::index::{Listing, WentBack};
use super::options::CacheOptions;
use super::page;
use super::requests::{self, Interrupted};
use super::tracked::Tracked;
use crate::hints::Broadcast;

/// Follows a kind until the future is dropped.
pub(super) async fn follow(
    client: &Client,
    tracked: &Tracked,
    options: &CacheOptions,
    (hints, pages): (&Broadcast, &Semaphore),
) {
    let mut backoff = Backoff::new(options);
    loop {
        let Err(interrupted) = step(client, tracked, options, (hints, pages), &mut backoff).await
        else {
            continue;
        };
        tracked.expire();
        let wait = backoff.next(retry_after(&interrupted));
        // Warns once per outage. An expired version is normal operation.
        if backoff.is_first() && !matches!(interrupted, Interrupted::Expired) {
            tracing::warn!(kind = tracked.path(), ?wait, error = %interrupted, "watch interrupted");
        } else {
            tracing::debug!(kind = tracked.path(), ?wait, error = %interrupted, "watch interrupted");
        }
        tokio::time::sleep(wait).await;
    }
}

/// One list, or one watch from start to end.
async fn step(
    client: &Client,
    tracked: &Tracked,
    options: &CacheOptions,
    (hints, pages): (&Broadcast, &Semaphore),
    backoff: &mut Backoff,
) -> Result<(), Interrupted> {
    tracked.begin_on(requests::identity(client, options).await?);
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
    tracked: &Tracked,
    options: &CacheOptions,
    (hints, pages): (&Broadcast, &Semaphore),
) -> Result<(), Interrupted> {
    tracked.begin_list();
    let source = tracked.source();
    let mut listing = Listing::default();
    let (mut after, mut size) = (None, options.page_size);
    loop {
        // The semaphore is never closed. The permit is held until the page text is dropped.
        let _one_of_few = pages.acquire().await;
        let text = requests::list(client, source, (after.as_deref(), size), options).await?;
        let Some(text) = text else {
            if size <= 1 {
                return Err(Interrupted::Unreadable(None));
            }
            size /= 2;
            tracing::debug!(
                kind = tracked.path(),
                size,
                "the page is too large; requesting smaller pages"
            );
            continue;
        };
        let page = page::read(&text, |object| listing.add(object, source.keep));
        let page = page.map_err(|error| Interrupted::Unreadable(Some(error)))?;
        after = page.next.filter(|next| !next.is_empty());
        if after.is_none() {
            for resource in tracked.take(listing, page.resource_version) {
                hints.send(resource);
            }
            return Ok(());
        }
    }
}

/// Watches until the server ends the watch, the watch fails, or the last list is older than `relist_after`.
async fn watch(
    client: &Client,
    tracked: &Tracked,
    version: &str,
    options: &CacheOptions,
    hints: &Broadcast,
    backoff: &mut Backoff,
) -> Result<(), Interrupted> {
    let began = Instant::now();
    let mut watch = requests::watch(client, tracked.source(), version, options).await?;
    tracked.watch_started();
    let until = tracked.trusted_until(options.relist_after).unwrap_or_else(Instant::now);
    let mut idle = true;
    loop {
        let Ok(line) = timeout_at(until, watch.next()).await else {
            tracked.mark_stale();
            return Ok(());
        };
        let Some(line) = line? else { break };
        let changed = tracked.apply(line.event()?).map_err(|WentBack| Interrupted::WentBack)?;
        // A watch that delivers after the longest wait works, so the back-off resets. A watch that keeps ending
        // sooner must not cost a list each time without a wait.
        if began.elapsed() >= options.longest_wait {
            backoff.reset();
        }
        idle = false;
        if let Some(resource) = changed {
            hints.send(resource);
        }
    }
    // The server counts from the arrival of the request, which is later than `began`. A regular end therefore never
    // counts as early.
    let early = began.elapsed() < options.watch_length();
    if early {
        tracing::debug!(kind = tracked.path(), "the watch ended early");
        tracked.expire();
    }
    if early || idle {
        tokio::time::sleep(backoff.next(None)).await;
    }
    Ok(())
}

const fn retry_after(interrupted: &Interrupted) -> Option<Duration> {
    match interrupted {
        Interrupted::Refused { retry_after, .. } => *retry_after,
        Interrupted::Expired
        | Interrupted::WentBack
        | Interrupted::Silent(_)
        | Interrupted::Broken(_)
        | Interrupted::Unreadable(_) => None,
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
    fn next(&mut self, asked: Option<Duration>) -> Duration {
        let whole = self.first.saturating_mul(1 << self.failures.min(20)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        // Needs no reproducible seed: it only spreads the load on the server.
        let thousandths = 500 + self.jitter.hash_one(self.failures) % 501;
        let wait = whole / 1000 * u32::try_from(thousandths).unwrap_or(1000);
        asked.map_or(wait, |asked| asked.max(wait))
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
