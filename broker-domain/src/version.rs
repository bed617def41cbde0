//! Optimistic concurrency: every committed change of a resource increments its version.

use std::fmt;

use crate::error::Error;

/// The number of committed changes of a resource.
///
/// A writer passes the version that it read; a store commits only if the resource still has that version.
///
/// ```
/// use broker_domain::Version;
///
/// assert_eq!(Version::FIRST.next().get(), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The largest accepted value: half the range of a signed 64-bit column, so that increments never
    /// overflow it.
    pub const MAX: u64 = (i64::MAX / 2).unsigned_abs();
    /// The version before the first commit; creations expect it.
    pub const UNSTORED: Self = Self(0);
    /// The version of a newly created resource.
    pub const FIRST: Self = Self(1);

    /// Accepts the version of a stored resource.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for zero, which means never stored, and above [`Version::MAX`].
    pub fn new(version: u64) -> Result<Self, Error> {
        if version == 0 || version > Self::MAX {
            return Err(Error::invalid("version", format!("is {version}; use 1 to {}", Self::MAX)));
        }
        Ok(Self(version))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The version after one more change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_outside_of_its_range_is_rejected() {
        assert_eq!(Version::new(1).unwrap(), Version::FIRST);
        assert!(Version::new(Version::MAX).is_ok());
        for invalid in [0, Version::MAX + 1, u64::MAX] {
            let error = Version::new(invalid).unwrap_err();
            assert!(error.to_string().starts_with("version: is "), "{error}");
        }
    }
}
