//! Throughout: the refusal of a setting that cannot work.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A configuration that cannot work: which field, what it is, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; {allowed}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The field, such as `deadlines.store`. Fields of an adapter's options have a prefix, such as `cache.page_size`.
    pub field: &'static str,
    /// Its value, or `missing`.
    pub value: String,
    /// What to give instead.
    pub allowed: String,
}

impl ConfigError {
    /// The least wait between two rounds of a loop. A shorter one keeps a processor busy.
    pub const LEAST_WAIT: Duration = Duration::from_millis(10);

    /// A field with a value that is not allowed.
    pub fn new(field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.into() }
    }

    /// A field with a time that is not allowed.
    pub fn time(field: &'static str, value: Duration, allowed: impl Into<String>) -> Self {
        Self::new(field, format_args!("{value:?}"), allowed)
    }

    /// Refuses a time outside of a range. A range that starts at a nanosecond allows all times but zero.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the bound.
    pub fn check_time(
        field: &'static str,
        time: Duration,
        allowed: &RangeInclusive<Duration>,
    ) -> Result<(), Self> {
        let (least, most) = (*allowed.start(), *allowed.end());
        let allowed = if allowed.contains(&time) {
            return Ok(());
        } else if time > most {
            format!("give at most {most:?}")
        } else if least.as_nanos() == 1 {
            "give more than zero".to_owned()
        } else {
            format!("give at least {least:?}")
        };
        Err(Self::time(field, time, allowed))
    }

    /// Refuses the bounds of a back-off that does not wait, or whose first wait is longer than its longest.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first of the two that cannot work.
    pub fn check_waits(
        first: (&'static str, Duration),
        longest: (&'static str, Duration),
        most: Duration,
    ) -> Result<(), Self> {
        for (field, wait) in [first, longest] {
            Self::check_time(field, wait, &(Self::LEAST_WAIT..=most))?;
        }
        if first.1 > longest.1 {
            let allowed = format!("give at most {:?}, which is {}", longest.1, longest.0);
            return Err(Self::time(first.0, first.1, allowed));
        }
        Ok(())
    }
}
