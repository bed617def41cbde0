//! Cache settings. Each one trades API server load against detection delay; none affects correctness.

use std::time::Duration;

/// How the cache lists and watches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheOptions {
    /// Objects per list page.
    pub page_size: u32,
    /// Maximum size of a list page, in bytes of text. The cache requests a larger page again with fewer objects. At
    /// most four pages are in memory at once, over all kinds.
    pub page_bytes: usize,
    /// Requested length of a watch, in whole seconds. A watch that ends then is resumed without a list. A proxy that
    /// closes connections earlier costs one list per close.
    pub watch_timeout: Duration,
    /// Longest silence of a live watch. An API server sends a bookmark about once a minute; a shorter value closes
    /// healthy watches.
    pub silence: Duration,
    /// Interval after which the cache lists each kind even though its watch works. It bounds the effect of a watch
    /// that omits an event. The cache sends a hint for every difference that the list shows.
    pub relist_after: Duration,
    /// Timeout of one list page, and of the start of a watch.
    pub request_timeout: Duration,
    /// First wait after a failure. Each wait is about twice the one before, with jitter.
    pub first_wait: Duration,
    /// Longest wait after a failure.
    pub longest_wait: Duration,
    /// Idle time after which a kind is no longer watched. Choose it longer than the sweep interval, or every sweep
    /// finds its kinds cold.
    pub unused_after: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            page_size: 500,
            page_bytes: 16 << 20,
            watch_timeout: Duration::from_secs(290),
            silence: Duration::from_secs(90),
            relist_after: Duration::from_hours(1),
            request_timeout: Duration::from_secs(30),
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(30),
            unused_after: Duration::from_hours(1),
        }
    }
}

impl CacheOptions {
    /// The requested watch length: whole seconds, at least one.
    pub(super) fn watch_length(&self) -> Duration {
        Duration::from_secs(self.watch_timeout.as_secs().max(1))
    }

    /// Sets [`CacheOptions::page_bytes`].
    #[must_use]
    pub const fn with_page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Sets [`CacheOptions::silence`].
    #[must_use]
    pub const fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sets [`CacheOptions::watch_timeout`].
    #[must_use]
    pub const fn with_watch_timeout(mut self, timeout: Duration) -> Self {
        self.watch_timeout = timeout;
        self
    }

    /// Sets [`CacheOptions::relist_after`].
    #[must_use]
    pub const fn with_relist_after(mut self, relist_after: Duration) -> Self {
        self.relist_after = relist_after;
        self
    }

    /// Sets [`CacheOptions::request_timeout`].
    #[must_use]
    pub const fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets [`CacheOptions::first_wait`] and [`CacheOptions::longest_wait`].
    #[must_use]
    pub const fn with_waits(mut self, first: Duration, longest: Duration) -> Self {
        self.first_wait = first;
        self.longest_wait = longest;
        self
    }

    /// Sets [`CacheOptions::unused_after`].
    #[must_use]
    pub const fn with_unused_after(mut self, unused_after: Duration) -> Self {
        self.unused_after = unused_after;
        self
    }
}
