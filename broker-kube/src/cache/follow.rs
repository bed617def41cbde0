//! Following one kind: list, then watch, for as long as somebody wants to know.
//!
//! ```text
//!          ┌── expired, believed for long enough, another cluster ──┐
//!          ▼                                                        │
//!        list ──── version ────▶ watch ─────────────────────────────┤
//!          ▲                       ▲         ├── ended in good order: at once ──┐
//!          └── failed: wait        └─────────┴── failed: wait ─────────────────┘
//! ```
//!
//! Before each list and each watch the cluster is asked who it is. What stands here is known to be of that
//! cluster for as long as the kind is warm, so that whoever asks meanwhile need not ask the API server.
//!
//! Whoever waits here holds up nobody: while a kind is not followed it is cold, and observations take the
//! paged lists instead.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use http::StatusCode;
use kube::Client;
use tokio::time::{Instant, timeout_at};

use super::index::Listing;
use super::options::CacheOptions;
use super::requests::{self, Interrupted};
use super::tracked::Tracked;
use crate::hints::Broadcast;

/// Follows a kind for ever; dropped when nobody wants it any more.
pub(super) async fn follow(
    client: &Client,
    tracked: &Tracked,
    options: &CacheOptions,
    hints: &Broadcast,
) {
    let mut waits = Waits::new(options);
    loop {
        match step(client, tracked, options, hints, &mut waits).await {
            Ok(()) => {}
            Err(Interrupted::Expired) => {
                tracing::debug!(kind = tracked.path(), "the watched version has expired");
                tracked.expire();
                tokio::time::sleep(waits.next(None)).await;
            }
            Err(interrupted) => {
                tracked.lose();
                if is_absent(&interrupted) {
                    // A kind that comes back is another one: only a list tells what it has.
                    tracked.expire();
                }
                let wait = waits.next(retry_after(&interrupted));
                // A failure is a warning once, and a detail for as long as it lasts.
                if waits.is_first() {
                    tracing::warn!(kind = tracked.path(), ?wait, error = %interrupted, "not watched");
                } else {
                    tracing::debug!(kind = tracked.path(), ?wait, error = %interrupted, "not watched");
                }
                tokio::time::sleep(wait).await;
            }
        }
    }
}

/// One list, or one watch from beginning to end.
async fn step(
    client: &Client,
    tracked: &Tracked,
    options: &CacheOptions,
    hints: &Broadcast,
    waits: &mut Waits,
) -> Result<(), Interrupted> {
    tracked.begin_on(requests::identity(client, options).await?);
    match tracked.version() {
        None => list(client, tracked, options, hints).await,
        Some(version) => watch(client, tracked, &version, options, hints, waits).await,
    }
}

/// Lists everything, page by page. The list is taken as a whole or not at all.
async fn list(
    client: &Client,
    tracked: &Tracked,
    options: &CacheOptions,
    hints: &Broadcast,
) -> Result<(), Interrupted> {
    let mut listing = Listing::default();
    let mut after = None;
    loop {
        let source = tracked.source();
        let page = requests::list(client, source, after.as_deref(), options).await?;
        for object in page.items.iter().flatten() {
            listing.add(object, source.keep);
        }
        after = page.metadata.next.filter(|next| !next.is_empty());
        if after.is_none() {
            for resource in tracked.take(listing, page.metadata.resource_version) {
                hints.send(resource);
            }
            return Ok(());
        }
    }
}

/// Watches until the server ends it, something breaks, or it was believed for long enough.
async fn watch(
    client: &Client,
    tracked: &Tracked,
    version: &str,
    options: &CacheOptions,
    hints: &Broadcast,
    waits: &mut Waits,
) -> Result<(), Interrupted> {
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
        let changed = tracked.apply(line.event()?);
        // Only what was heard is proof that the way is clear: a server that takes every watch and drops it
        // must not be asked in a circle.
        waits.reset();
        idle = false;
        if let Some(resource) = changed {
            hints.send(resource);
        }
    }
    if idle {
        tokio::time::sleep(waits.next(None)).await;
    }
    Ok(())
}

/// The kind is not served.
fn is_absent(interrupted: &Interrupted) -> bool {
    matches!(interrupted, Interrupted::Refused { status: StatusCode::NOT_FOUND, .. })
}

const fn retry_after(interrupted: &Interrupted) -> Option<Duration> {
    match interrupted {
        Interrupted::Refused { retry_after, .. } => *retry_after,
        Interrupted::Expired
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
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_begin_anew() {
        let millis = Duration::from_millis;
        let options = CacheOptions::default().with_waits(millis(100), millis(1000));
        let mut waits = Waits::new(&options);
        for whole in [100, 200, 400, 800, 1000, 1000] {
            let wait = waits.next(None);
            assert!(millis(whole) / 2 <= wait && wait <= millis(whole), "{wait:?} of {whole} ms");
        }
        waits.reset();
        assert!(waits.next(None) <= millis(100));
        assert!(waits.is_first());
    }

    #[test]
    fn a_server_that_asks_for_time_gets_it() {
        let mut waits = Waits::new(&CacheOptions::default());
        assert_eq!(waits.next(Some(Duration::from_mins(2))), Duration::from_mins(2));
        assert!(waits.next(Some(Duration::ZERO)) > Duration::ZERO);
    }
}
