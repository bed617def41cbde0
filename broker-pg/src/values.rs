//! Numbers and times on their way between the ports' types and the columns'.

use std::time::Duration;

use broker_domain::Error;

/// Longer than anybody waits: what is more would leave the calendar of the database's clock.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 1_000);

/// A span of time as statements take it.
pub(crate) fn microseconds(span: Duration) -> i64 {
    i64::try_from(span.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

/// A count that a signed column holds. Those of the domain are bounded far below its end.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count as it was stored.
pub(crate) fn unsigned(field: &str, count: i64) -> Result<u64, Error> {
    u64::try_from(count).map_err(|_| Error::invalid(field, format!("is {count}; use 0 or more")))
}

/// A small count as it was stored.
pub(crate) fn unsigned_int(field: &str, count: i32) -> Result<u32, Error> {
    u32::try_from(count).map_err(|_| Error::invalid(field, format!("is {count}; use 0 or more")))
}

/// A digest as it was stored.
pub(crate) fn digest(field: &str, bytes: &[u8]) -> Result<[u8; 32], Error> {
    bytes
        .try_into()
        .map_err(|_| Error::invalid(field, format!("has {} bytes; use 32", bytes.len())))
}

/// Words for people, without the one character that a text column does not take.
pub(crate) fn text(words: &str) -> String {
    words.replace('\0', "\u{fffd}")
}
