//! The error for an invalid setting.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// An invalid setting: the field, its value and the allowed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; {allowed}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The field, such as `deadlines.store`. Fields of an adapter's options have a prefix, such as `cache.page_size`.
    pub field: &'static str,
    /// Its value, or `missing`.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

impl ConfigError {
    /// The minimum wait between two rounds of a loop; a shorter wait would occupy a processor.
    pub const MIN_WAIT: Duration = Duration::from_millis(10);

    /// A field with a value that is not allowed.
    pub fn new(field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.into() }
    }

    /// A field with a time that is not allowed.
    pub fn time(field: &'static str, value: Duration, allowed: impl Into<String>) -> Self {
        Self::new(field, format_args!("{value:?}"), allowed)
    }

    /// Rejects a time outside of a range. A range from one nanosecond excludes only zero.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the bound.
    pub fn check_time(
        field: &'static str,
        time: Duration,
        allowed: &RangeInclusive<Duration>,
    ) -> Result<(), Self> {
        let (min, max) = (*allowed.start(), *allowed.end());
        let allowed = if allowed.contains(&time) {
            return Ok(());
        } else if time > max {
            format!("give at most {max:?}")
        } else if min.as_nanos() == 1 {
            "give more than zero".to_owned()
        } else {
            format!("give at least {min:?}")
        };
        Err(Self::time(field, time, allowed))
    }

    /// Rejects back-off bounds below [`MIN_WAIT`](Self::MIN_WAIT) or above `max`, and a first wait above the longest.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first invalid bound.
    pub fn check_waits(
        first: (&'static str, Duration),
        longest: (&'static str, Duration),
        max: Duration,
    ) -> Result<(), Self> {
        for (field, wait) in [first, longest] {
            Self::check_time(field, wait, &(Self::MIN_WAIT..=max))?;
        }
        if first.1 > longest.1 {
            let allowed = format!("give at most {:?}, which is {}", longest.1, longest.0);
            return Err(Self::time(first.0, first.1, allowed));
        }
        Ok(())
    }
}
