//! Converts numbers, times and texts between port types and column types.

use std::time::Duration;

use broker_domain::Error;

/// A longer span would exceed the range of the database's clock.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 1_000);

/// A duration as a statement parameter, at most [`LONGEST`].
pub(crate) fn microseconds(span: Duration) -> i64 {
    i64::try_from(span.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

/// A count for a signed column. Domain counts are far below its maximum.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(field: &str, count: i64) -> Result<u64, Error> {
    u64::try_from(count).map_err(|_| Error::invalid(field, format!("is {count}; use 0 or more")))
}

pub(crate) fn unsigned_int(field: &str, count: i32) -> Result<u32, Error> {
    u32::try_from(count).map_err(|_| Error::invalid(field, format!("is {count}; use 0 or more")))
}

pub(crate) fn digest(field: &str, bytes: &[u8]) -> Result<[u8; 32], Error> {
    bytes
        .try_into()
        .map_err(|_| Error::invalid(field, format!("has {} bytes; use 32", bytes.len())))
}

/// Free text without NUL, which a text column refuses.
pub(crate) fn text(words: &str) -> String {
    words.replace('\0', "\u{fffd}")
}
