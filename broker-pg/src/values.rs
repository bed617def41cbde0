//! Converts numbers, times and texts between port types and column types.

use std::time::Duration;

use broker_domain::Error;

/// Keeps due times within the range of a Postgres timestamp.
const MAX_DURATION: Duration = Duration::from_hours(24 * 365 * 1_000);

/// A duration as a statement parameter, at most [`MAX_DURATION`].
pub(crate) fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.min(MAX_DURATION).as_micros()).unwrap_or(i64::MAX)
}

/// A count for a signed column. Domain counts are far below its maximum.
pub(crate) fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn to_u64(field: &str, count: i64) -> Result<u64, Error> {
    u64::try_from(count).map_err(|_| Error::invalid(field, format!("is {count}; use 0 or more")))
}

pub(crate) fn to_u32(field: &str, count: i32) -> Result<u32, Error> {
    u32::try_from(count).map_err(|_| Error::invalid(field, format!("is {count}; use 0 or more")))
}

pub(crate) fn digest_bytes(field: &str, bytes: &[u8]) -> Result<[u8; 32], Error> {
    bytes
        .try_into()
        .map_err(|_| Error::invalid(field, format!("has {} bytes; use 32", bytes.len())))
}

/// Replaces NUL, which a text column refuses.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
