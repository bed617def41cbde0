//! Tests of the follower against a scripted API server, on a paused clock.

mod server;

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};

use super::*;
use crate::testing::resource_id;
use server::{CacheFixture, WatchEnd, bookmark};

/// Interval of an API server's bookmarks.
const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn backoff_grows_to_its_limit_and_resets() {
    let millis = Duration::from_millis;
    let options = CacheOptions::default().with_waits(millis(100), millis(1000));
    let mut backoff = Backoff::new(&options);
    for full_wait in [100, 200, 400, 800, 1000, 1000] {
        let wait = backoff.next(None);
        assert!(
            millis(full_wait) / 2 <= wait && wait <= millis(full_wait),
            "{wait:?} of {full_wait} ms"
        );
    }
    backoff.reset();
    assert!(backoff.next(None) <= millis(100));
    assert!(backoff.is_first());
}

#[test]
fn backoff_of_the_longest_time_does_not_overflow() {
    let options = CacheOptions::default().with_waits(Duration::MAX, Duration::MAX);
    assert!(Backoff::new(&options).next(None) > Duration::MAX / 3);
}

#[test]
fn backoff_honours_retry_after() {
    let mut backoff = Backoff::new(&CacheOptions::default());
    assert_eq!(backoff.next(Some(Duration::from_mins(2))), Duration::from_mins(2));
    assert!(backoff.next(Some(Duration::ZERO)) > Duration::ZERO);
}

/// The store is restored to version 8; object 2 was created at version 9. Later writes may raise the store above the
/// version at which the watch ended, so a higher version proves nothing.
#[tokio::test(start_paused = true)]
async fn store_restored_behind_a_watch_is_listed_again() {
    for (how, end) in [
        ("the connection broke", Some(WatchEnd::Cut)),
        ("the server shut down regularly", Some(WatchEnd::Closed)),
        ("the server went silent", None),
    ] {
        for (relation, version) in [("a lower version", 8), ("a higher version", 30)] {
            let fixture = CacheFixture::new(&[(1, 3), (2, 9)], 10).await;
            let mut hints = fixture.cache.hints();
            assert!(fixture.contains(2), "{how}, {relation}");

            fixture.server.restore(&[(1, 3)], version);
            if let Some(end) = end {
                fixture.server.end_watch(end);
            }
            fixture.wait_for_watches(2).await;
            assert!(!fixture.contains(2), "{how}, {relation}: the cache shows a lost object");
            assert_eq!(hints.next().await, Some(resource_id(2)), "{how}, {relation}");
            assert_eq!(fixture.server.list_count(), 2, "{how}, {relation}: one list per kind");
            assert_eq!(
                fixture.server.watch_start_versions(),
                ["10".to_owned(), version.to_string()]
            );
        }
    }
}

/// A watch that ends at the requested timeout is routine: the server runs on the same store.
#[tokio::test(start_paused = true)]
async fn watch_that_ends_on_time_is_resumed_without_a_list() {
    let fixture = CacheFixture::new(&[(1, 3)], 10).await;
    for version in [11, 12, 13, 14] {
        tokio::time::sleep(MINUTE).await;
        fixture.server.send_line(bookmark(version));
    }
    let end = CacheOptions::default().watch_timeout.checked_sub(4 * MINUTE).unwrap();
    tokio::time::sleep(end).await;
    fixture.server.end_watch(WatchEnd::Closed);
    fixture.wait_for_watches(2).await;
    assert_eq!(fixture.server.watch_start_versions(), ["10", "14"]);
    assert_eq!(fixture.server.list_count(), 1);
    assert!(fixture.contains(1));
}

/// An API server sends versions in ascending order. A lower version belongs to another history.
#[tokio::test(start_paused = true)]
async fn lower_version_in_a_watch_causes_a_relist() {
    let fixture = CacheFixture::new(&[(1, 3), (2, 9)], 10).await;
    fixture.server.restore(&[(1, 3)], 8);
    fixture.server.send_line(bookmark(8));
    fixture.wait_for_watches(2).await;
    assert!(!fixture.contains(2));
    assert_eq!(fixture.server.list_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_early_repeatedly_is_backed_off() {
    let longest = CacheOptions::default().longest_wait;
    for end in [WatchEnd::Closed, WatchEnd::Cut] {
        let fixture = CacheFixture::new(&[(1, 3)], 10).await;
        for watch in 1..=20 {
            fixture
                .wait_until("the next watch", |server| server.watch_start_versions().len() == watch)
                .await;
            fixture.server.send_line(bookmark(10));
            // The cache applies the line before the watch ends.
            tokio::time::sleep(Duration::from_millis(1)).await;
            fixture.server.end_watch(end);
        }
        let started = Instant::now();
        fixture
            .wait_until("another watch", |server| server.watch_start_versions().len() == 21)
            .await;
        assert!(
            started.elapsed() >= longest / 2,
            "{end:?}: the follower waited for {:?}",
            started.elapsed()
        );
    }
}

/// A caller waits for the list after a failure as for the first list. A sweep that listed meanwhile would list every
/// object for each of its pages.
#[tokio::test(start_paused = true)]
async fn caller_after_a_failure_waits_for_the_list() {
    let fixture = CacheFixture::new(&[(1, 3)], 10).await;
    let list_block = fixture.server.block_lists();
    fixture.server.end_watch(WatchEnd::Cut);
    fixture.wait_until("a second list", |server| server.list_count() == 2).await;
    let mut warming = Box::pin(fixture.cache.warming(&fixture.xrd));
    assert!((&mut warming).now_or_never().is_none(), "the kind is cold and a list is in progress");
    drop(list_block);
    let warm = tokio::select! {
        warm = warming => warm,
        () = fixture.wait_until("a third list", |server| server.list_count() == 3) => None,
    };
    assert!(warm.is_some(), "the kind is warm after the list in progress");
}

/// Tenants decide the size of objects, so the memory of a list must be bounded.
#[tokio::test(start_paused = true)]
async fn oversized_list_page_is_requested_in_parts() {
    const BYTES: usize = 1_000;
    let objects: Vec<_> = (1..=20).map(|number| (number, 3)).collect();
    let options = CacheOptions::default().with_page_bytes(BYTES);
    let fixture = CacheFixture::with(options, &objects, 10).await;
    assert!((1..=20).all(|number| fixture.contains(number)));
    let pages = fixture.server.page_sizes();
    let (oversized, accepted): (Vec<_>, Vec<_>) =
        pages.into_iter().partition(|(_, size)| *size > BYTES);
    let limits =
        |pages: &[(usize, usize)]| pages.iter().map(|(limit, _)| *limit).collect::<Vec<_>>();
    assert_eq!(limits(&oversized), [500, 250, 125, 62, 31, 15, 7], "each limit is halved");
    assert_eq!(limits(&accepted), [3; 7], "later pages keep the size that fits");
    // A single object is accepted at any size, or the kind would never be warm.
    let options = CacheOptions::default().with_page_bytes(10);
    let fixture = CacheFixture::with(options, &[(1, 3), (2, 4)], 10).await;
    assert!(fixture.contains(1) && fixture.contains(2));
}

#[tokio::test(start_paused = true)]
async fn concurrent_list_pages_are_bounded() {
    let fixture = CacheFixture::new(&[(1, 3)], 10).await;
    let list_block = fixture.server.block_lists();
    for number in 0..9 {
        fixture.cache.track_provider_configs("example.org/v1", &format!("configs{number}"));
    }
    // Every follower has sent its request by then, and no list has reached its timeout.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.server.list_count(), 1 + 4, "four concurrent pages after the first list");
    drop(list_block);
    fixture.wait_until("every kind to be listed", |server| server.list_count() == 1 + 9).await;
}
