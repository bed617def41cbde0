//! Following one kind: list, then watch, until the kind is dropped.
//!
//! ```text
//!                    ┌── failed: wait ──┐
//!                    ▼                  │
//!      ┌────────▶  list ────────────────┘
//!      │             │ version
//!      │             ▼
//!      │           watch ◀── ended when it was asked to end ──┐
//!      │             ├─────────────────────────────────────────┘
//!      │             ├── ended early, or trusted for `relist_after` ──┐
//!      │             ├── failed, expired, or went back: wait ─────────┤
//!      └─────────────┴── another cluster ─────────────────────────────┘
//! ```
//!
//! A watch resumes from its version only if it ended when it was asked to end: the API server was running then,
//! so its store is the one that the version belongs to. After every other end the kind is listed. The API server
//! may have come back over a restored store, whose versions go back or were reached a second time by other
//! changes; a list shows that, and no version does (decision 39).
//!
//! Before each list and each watch the follower asks which cluster it is. That answer holds while the kind is warm,
//! so a caller needs no request for it.
//!
//! A follower that waits blocks no caller: its kind is cold meanwhile, and observations use paged lists.

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

/// Follows a kind for ever; dropped when nobody wants it any more.
pub(super) async fn follow(
    client: &Client,
    tracked: &Tracked,
    options: &CacheOptions,
    (hints, pages): (&Broadcast, &Semaphore),
) {
    let mut waits = Waits::new(options);
    loop {
        let Err(interrupted) = step(client, tracked, options, (hints, pages), &mut waits).await
        else {
            continue;
        };
        tracked.expire();
        let wait = waits.next(retry_after(&interrupted));
        // A failure is a warning once, and a detail for as long as it lasts. A version expires in normal operation.
        if waits.is_first() && !matches!(interrupted, Interrupted::Expired) {
            tracing::warn!(kind = tracked.path(), ?wait, error = %interrupted, "not watched");
        } else {
            tracing::debug!(kind = tracked.path(), ?wait, error = %interrupted, "not watched");
        }
        tokio::time::sleep(wait).await;
    }
}

/// One list, or one watch from beginning to end.
async fn step(
    client: &Client,
    tracked: &Tracked,
    options: &CacheOptions,
    (hints, pages): (&Broadcast, &Semaphore),
    waits: &mut Waits,
) -> Result<(), Interrupted> {
    tracked.begin_on(requests::identity(client, options).await?);
    match tracked.version() {
        None => list(client, tracked, options, (hints, pages)).await,
        Some(version) => watch(client, tracked, &version, options, hints, waits).await,
    }
}

/// Lists everything, page by page. The list is taken as a whole or not at all.
///
/// A page has at most `page_size` objects and `page_bytes`, however large the objects are: one that is larger is
/// dropped on its way and asked for again with half as many objects. The next pages keep that size.
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
        // Never closed. Held until the text of the page is dropped.
        let _one_of_few = pages.acquire().await;
        let text = requests::list(client, source, (after.as_deref(), size), options).await?;
        let Some(text) = text else {
            if size <= 1 {
                return Err(Interrupted::Unreadable(None));
            }
            size /= 2;
            tracing::debug!(kind = tracked.path(), size, "the objects are large: smaller pages");
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

/// Watches until the server ends it, something breaks, or the last list is older than `relist_after`.
async fn watch(
    client: &Client,
    tracked: &Tracked,
    version: &str,
    options: &CacheOptions,
    hints: &Broadcast,
    waits: &mut Waits,
) -> Result<(), Interrupted> {
    let began = Instant::now();
    let mut watch = requests::watch(client, tracked.source(), version, options).await?;
    tracked.hear();
    let until = tracked.believed_until(options.relist_after).unwrap_or_else(Instant::now);
    let mut idle = true;
    loop {
        let Ok(line) = timeout_at(until, watch.next()).await else {
            tracked.doubt();
            return Ok(());
        };
        let Some(line) = line? else { break };
        let changed = tracked.apply(line.event()?).map_err(|WentBack| Interrupted::WentBack)?;
        // A watch that is heard after the longest wait works. One that ends sooner, again and again, must not cost a
        // list each time without a wait.
        if began.elapsed() >= options.longest_wait {
            waits.reset();
        }
        idle = false;
        if let Some(resource) = changed {
            hints.send(resource);
        }
    }
    // The server counts from when the request arrives, which is later than this began: an end on time is never
    // taken for an early one.
    let early = began.elapsed() < options.watch_timeout();
    if early {
        tracing::debug!(kind = tracked.path(), "the watch has ended early");
        tracked.expire();
    }
    if early || idle {
        tokio::time::sleep(waits.next(None)).await;
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

/// Waits that grow, with jitter, so that many brokers do not come back at once.
struct Waits {
    first: Duration,
    longest: Duration,
    failures: u32,
    jitter: RandomState,
}

impl Waits {
    fn new(options: &CacheOptions) -> Self {
        let (first, longest) = (options.first_wait, options.longest_wait);
        Self { first, longest, failures: 0, jitter: RandomState::new() }
    }

    /// The next wait: between a half and the whole of what the failures so far make it, and no shorter than
    /// the server asked for.
    fn next(&mut self, asked: Option<Duration>) -> Duration {
        let whole = self.first.saturating_mul(1 << self.failures.min(20)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        // No seed to replay: only the load on the server depends on it.
        let thousandths = 500 + self.jitter.hash_one(self.failures) % 501;
        let wait = whole * u32::try_from(thousandths).unwrap_or(1000) / 1000;
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
