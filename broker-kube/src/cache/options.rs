//! What an embedder may choose about the cache. Every value is a trade of load on the API server against how
//! soon something is noticed; nothing of it decides whether the broker is correct.

use std::time::Duration;

/// How the cache lists and watches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheOptions {
    /// How many objects a page of a list holds.
    pub page_size: u32,
    /// How many bytes a page of a list may have, as text. A page that is larger is asked for again with fewer objects.
    /// At most four pages are in memory at once, whatever the number of kinds.
    pub page_bytes: usize,
    /// After how long the API server is asked to end a watch, in whole seconds, to be resumed without a list. A
    /// connection that something between ends earlier costs a list of the kind each time.
    pub watch_timeout: Duration,
    /// How long a watch may say nothing before it counts as dead. An API server sends a bookmark about once
    /// a minute even when nothing happens; what is shorter than that tears down watches that are well.
    pub silence: Duration,
    /// For how long watches are believed before everything is listed anew. An API server that tells each change
    /// to whoever watches makes this superfluous; it is what bounds a watch that goes on and leaves something
    /// out. Of anything that the list shows to be otherwise there is a hint.
    pub relist_after: Duration,
    /// How long one page of a list, or the beginning of a watch, may take.
    pub request_timeout: Duration,
    /// The first wait after a failure, and the longest. Each wait is about twice the one before, with jitter.
    pub first_wait: Duration,
    /// See [`CacheOptions::first_wait`].
    pub longest_wait: Duration,
    /// A kind that nobody asked for during so long is no longer watched. Longer than the interval between
    /// two sweeps, or every sweep finds its kinds cold.
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
    /// The time that a watch is asked for: whole seconds, at least one.
    pub(super) fn watch_timeout(&self) -> Duration {
        Duration::from_secs(self.watch_timeout.as_secs().max(1))
    }

    /// With another number of bytes that a page of a list may have.
    #[must_use]
    pub const fn with_page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// With another time after which a watch that says nothing counts as dead.
    #[must_use]
    pub const fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// With another time after which the API server is asked to end a watch.
    #[must_use]
    pub const fn with_watch_timeout(mut self, timeout: Duration) -> Self {
        self.watch_timeout = timeout;
        self
    }

    /// With another time after which everything is listed anew.
    #[must_use]
    pub const fn with_relist_after(mut self, relist_after: Duration) -> Self {
        self.relist_after = relist_after;
        self
    }

    /// With another limit for one page of a list and for the beginning of a watch.
    #[must_use]
    pub const fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// With other waits after failures: the first and the longest.
    #[must_use]
    pub const fn with_waits(mut self, first: Duration, longest: Duration) -> Self {
        self.first_wait = first;
        self.longest_wait = longest;
        self
    }

    /// With another time after which a kind that nobody asks for is dropped.
    #[must_use]
    pub const fn with_unused_after(mut self, unused_after: Duration) -> Self {
        self.unused_after = unused_after;
        self
    }
}
