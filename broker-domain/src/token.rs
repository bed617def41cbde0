//! The ordinal of a bootstrap token.

use std::fmt;

use crate::error::Error;

/// The ordinal of a resource's token, counted from 1.
///
/// A consumed token cannot be used again: a re-created substrate gets the next ordinal. Under the same ordinal,
/// an issuer replaces only an unconsumed token.
///
/// ```
/// use broker_domain::TokenOrdinal;
///
/// assert_eq!(TokenOrdinal::FIRST.get(), 1);
/// assert_eq!(TokenOrdinal::FIRST.next().get(), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenOrdinal(u32);

impl TokenOrdinal {
    /// The largest accepted value: half the range of a signed 32-bit column, so that increments never
    /// overflow it.
    pub const MAX: u32 = (i32::MAX / 2).unsigned_abs();
    /// The first token of a resource.
    pub const FIRST: Self = Self(1);

    /// Accepts the ordinal of a stored resource.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for zero, and above [`TokenOrdinal::MAX`].
    pub fn new(ordinal: u32) -> Result<Self, Error> {
        if ordinal == 0 || ordinal > Self::MAX {
            let problem = format!("is {ordinal}; use 1 to {}", Self::MAX);
            return Err(Error::invalid("token_ordinal", problem));
        }
        Ok(Self(ordinal))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The ordinal of the token that replaces a consumed one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for TokenOrdinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinal_outside_of_its_range_is_rejected() {
        assert_eq!(TokenOrdinal::new(1).unwrap(), TokenOrdinal::FIRST);
        assert!(TokenOrdinal::new(TokenOrdinal::MAX).is_ok());
        for invalid in [0, TokenOrdinal::MAX + 1, u32::MAX] {
            let error = TokenOrdinal::new(invalid).unwrap_err();
            assert!(error.to_string().starts_with("token_ordinal: is "), "{error}");
        }
    }
}
