//! Cache settings. Each one trades API server load against detection delay; none affects correctness.

use std::time::Duration;

use broker_ports::ConfigError;

/// Lower bound of a time whose action would repeat without a pause at zero.
const SECOND: Duration = Duration::from_secs(1);

/// Upper bound: a longer time would disable the limit.
const DAY: Duration = Duration::from_hours(24);

/// How the cache lists and watches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheOptions {
    /// Objects per list page, at least 1. Default: 500.
    pub page_size: u32,
    /// Maximum size of a list page, in bytes of text. The cache requests a larger page again with fewer objects. At
    /// most four pages are in memory at once, over all kinds. Default: 16 MiB.
    pub page_bytes: usize,
    /// Requested length of a watch, in whole seconds. The cache resumes a watch that ends at this time without a list.
    /// A proxy that closes connections earlier costs one list per close. Default: 290 s. Allowed: 1 s to 1 day.
    pub watch_timeout: Duration,
    /// Longest silence of a live watch. An API server sends a bookmark about once a minute; a shorter value closes
    /// healthy watches. Default: 90 s. Allowed: 1 s to 1 day.
    pub silence: Duration,
    /// Interval after which the cache lists each kind even though its watch works. It bounds the effect of a watch
    /// that omits an event. The cache sends a hint for every difference that the list shows. Default: 1 h. Allowed: 1 s
    /// to 1 day.
    pub relist_after: Duration,
    /// Timeout of one list page, and of the start of a watch. Default: 30 s. Allowed: up to 1 day.
    pub request_timeout: Duration,
    /// First wait after a failure. Each wait is about twice the one before, with jitter. Default: 200 ms. Allowed: 10
    /// ms to `longest_wait`.
    pub first_wait: Duration,
    /// Longest wait after a failure. Default: 30 s. Allowed: up to 1 h.
    pub longest_wait: Duration,
    /// Idle time after which a kind is no longer watched. Choose it longer than the sweep interval, or every sweep
    /// finds its kinds cold. Default: 1 h. Allowed: at least 1 s.
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
    /// Checks every field. An error names the field with the prefix `cache.`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first invalid field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        // The API server treats zero as "no limit".
        if self.page_size == 0 {
            return Err(ConfigError::new("cache.page_size", 0, "give at least 1"));
        }
        if self.page_bytes == 0 {
            return Err(ConfigError::new("cache.page_bytes", 0, "give at least 1"));
        }
        for (field, time, range) in [
            ("cache.watch_timeout", self.watch_timeout, SECOND..=DAY),
            ("cache.silence", self.silence, SECOND..=DAY),
            ("cache.relist_after", self.relist_after, SECOND..=DAY),
            ("cache.request_timeout", self.request_timeout, Duration::from_nanos(1)..=DAY),
            ("cache.unused_after", self.unused_after, SECOND..=Duration::MAX),
        ] {
            ConfigError::check_time(field, time, &range)?;
        }
        let first_wait = ("cache.first_wait", self.first_wait);
        let longest_wait = ("cache.longest_wait", self.longest_wait);
        ConfigError::check_waits(first_wait, longest_wait, Duration::from_hours(1))
    }

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
