//! A clock that moves only when a test moves it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use time::{OffsetDateTime, UtcOffset};

use broker_ports::Clock;

/// A clock under the test's control. Clones are handles on the same clock.
///
/// ```
/// use std::time::Duration;
///
/// use broker_ports::Clock;
/// use broker_memory::ManualClock;
/// use time::OffsetDateTime;
///
/// let start = OffsetDateTime::UNIX_EPOCH;
/// let clock = ManualClock::at(start);
/// let handle = clock.clone();
/// handle.advance(Duration::from_secs(5));
/// assert_eq!(clock.now(), start + Duration::from_secs(5));
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<OffsetDateTime>>);

impl ManualClock {
    /// A clock that shows this moment.
    pub fn at(start: OffsetDateTime) -> Self {
        Self(Arc::new(Mutex::new(start.to_offset(UtcOffset::UTC))))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now += by;
    }

    /// Sets the clock to a moment, which may be in the past, as on a real wall clock.
    pub fn set(&self, to: OffsetDateTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = to.to_offset(UtcOffset::UTC);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
