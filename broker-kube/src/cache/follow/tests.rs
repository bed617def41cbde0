//! Follows a kind against a scripted API server, on a paused clock.

mod server;

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};

use super::*;
use crate::testing::resource;
use server::{End, Followed, bookmark};

/// Interval of an API server's bookmarks.
const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn backoff_grows_to_its_limit_and_resets() {
    let millis = Duration::from_millis;
    let options = CacheOptions::default().with_waits(millis(100), millis(1000));
    let mut backoff = Backoff::new(&options);
    for whole in [100, 200, 400, 800, 1000, 1000] {
        let wait = backoff.next(None);
        assert!(millis(whole) / 2 <= wait && wait <= millis(whole), "{wait:?} of {whole} ms");
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
/// version at which the watch ended, so the number alone proves nothing.
#[tokio::test(start_paused = true)]
async fn store_restored_behind_a_watch_is_listed_again() {
    for (how, end) in [
        ("the connection broke", Some(End::Cut)),
        ("the server shut down in good order", Some(End::Closed)),
        ("the server went silent", None),
    ] {
        for (since, version) in [("behind", 8), ("beyond", 30)] {
            let followed = Followed::of(&[(1, 3), (2, 9)], 10).await;
            let mut hints = followed.cache.hints();
            assert!(followed.sees(2), "{how}, {since}");

            followed.server.restore(&[(1, 3)], version);
            if let Some(end) = end {
                followed.server.end_watch(end);
            }
            followed.until_watches(2).await;
            assert!(!followed.sees(2), "{how}, {since}: the cache shows a lost object");
            assert_eq!(hints.next().await, Some(resource(2)), "{how}, {since}");
            assert_eq!(followed.server.lists(), 2, "{how}, {since}: one list per kind");
            assert_eq!(followed.server.watched_from(), ["10".to_owned(), version.to_string()]);
        }
    }
}

/// A watch that ends at the requested timeout is routine: the server still runs, so its store is the same.
#[tokio::test(start_paused = true)]
async fn watch_that_ends_on_time_is_resumed_without_a_list() {
    let followed = Followed::of(&[(1, 3)], 10).await;
    for version in [11, 12, 13, 14] {
        tokio::time::sleep(MINUTE).await;
        followed.server.send_line(bookmark(version));
    }
    let end = CacheOptions::default().watch_timeout.checked_sub(4 * MINUTE).unwrap();
    tokio::time::sleep(end).await;
    followed.server.end_watch(End::Closed);
    followed.until_watches(2).await;
    assert_eq!(followed.server.watched_from(), ["10", "14"]);
    assert_eq!(followed.server.lists(), 1);
    assert!(followed.sees(1));
}

/// An API server sends versions in ascending order. A lower version belongs to another history.
#[tokio::test(start_paused = true)]
async fn version_going_back_in_a_watch_causes_a_relist() {
    let followed = Followed::of(&[(1, 3), (2, 9)], 10).await;
    followed.server.restore(&[(1, 3)], 8);
    followed.server.send_line(bookmark(8));
    followed.until_watches(2).await;
    assert!(!followed.sees(2));
    assert_eq!(followed.server.lists(), 2);
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_early_repeatedly_is_backed_off() {
    let longest = CacheOptions::default().longest_wait;
    for end in [End::Closed, End::Cut] {
        let followed = Followed::of(&[(1, 3)], 10).await;
        for watch in 1..=20 {
            followed.until("the next watch", |server| server.watched_from().len() == watch).await;
            followed.server.send_line(bookmark(10));
            // The cache applies the line before the watch ends.
            tokio::time::sleep(Duration::from_millis(1)).await;
            followed.server.end_watch(end);
        }
        let began = Instant::now();
        followed.until("one more", |server| server.watched_from().len() == 21).await;
        assert!(began.elapsed() >= longest / 2, "{end:?}: it waited for {:?}", began.elapsed());
    }
}

/// The list after a failure is awaited like the first one. A sweep that lists by itself meanwhile would list
/// everything for each of its pages.
#[tokio::test(start_paused = true)]
async fn caller_waits_for_the_list_after_a_failure() {
    let followed = Followed::of(&[(1, 3)], 10).await;
    let held = followed.server.hold_lists();
    followed.server.end_watch(End::Cut);
    followed.until("a second list", |server| server.lists() == 2).await;
    let mut warming = Box::pin(followed.cache.warming(&followed.xrd));
    assert!((&mut warming).now_or_never().is_none(), "the kind is cold and a list is in progress");
    drop(held);
    let warm = tokio::select! {
        warm = warming => warm,
        () = followed.until("a third list", |server| server.lists() == 3) => None,
    };
    assert!(warm.is_some(), "the list in progress has answered");
}

/// Tenants decide how large objects are. The memory of a list is bounded.
#[tokio::test(start_paused = true)]
async fn oversized_list_page_is_requested_in_parts() {
    const BYTES: usize = 1_000;
    let objects: Vec<_> = (1..=20).map(|number| (number, 3)).collect();
    let options = CacheOptions::default().with_page_bytes(BYTES);
    let followed = Followed::with(options, &objects, 10).await;
    assert!((1..=20).all(|number| followed.sees(number)));
    let pages = followed.server.pages();
    let (large, taken): (Vec<_>, Vec<_>) = pages.into_iter().partition(|(_, size)| *size > BYTES);
    let limits = |pages: &[(usize, usize)]| pages.iter().map(|(it, _)| *it).collect::<Vec<_>>();
    assert_eq!(limits(&large), [500, 250, 125, 62, 31, 15, 7], "each is half of the one before");
    assert_eq!(limits(&taken), [3; 7], "later pages keep the size that fits");
    // A single object is accepted at any size, or the kind would never be warm.
    let options = CacheOptions::default().with_page_bytes(10);
    let followed = Followed::with(options, &[(1, 3), (2, 4)], 10).await;
    assert!(followed.sees(1) && followed.sees(2));
}

#[tokio::test(start_paused = true)]
async fn concurrent_list_pages_are_bounded() {
    let followed = Followed::of(&[(1, 3)], 10).await;
    let held = followed.server.hold_lists();
    for number in 0..9 {
        followed.cache.track_provider_configs("example.org/v1", &format!("configs{number}"));
    }
    // Every follower has sent its request by then, and no list has reached its timeout.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(followed.server.lists(), 1 + 4, "four concurrent pages after the first list");
    drop(held);
    followed.until("every kind to be listed", |server| server.lists() == 1 + 9).await;
}
