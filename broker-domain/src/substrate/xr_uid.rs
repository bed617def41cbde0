//! The identity of one incarnation of a composite resource.

use std::fmt;

use crate::error::Error;

/// The uid that the API server assigned to a composite resource. A re-created object has another uid, so the
/// uid distinguishes one loss from the next.
///
/// ```
/// use broker_domain::XrUid;
///
/// let uid = XrUid::new("e3f5a1c2-0d4b-4c57-9f6e-1b2a3c4d5e6f")?;
/// assert_eq!(uid.as_str().len(), 36);
/// assert!(XrUid::new("two words").is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XrUid(String);

impl XrUid {
    /// Accepts the uid of an object.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is empty, longer than 128 bytes or not visible ASCII.
    pub fn new(uid: impl Into<String>) -> Result<Self, Error> {
        let uid = uid.into();
        if uid.is_empty() || uid.len() > 128 || !uid.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Error::invalid(
                "xr_uid",
                "is not a uid; use 1 to 128 visible ASCII characters",
            ));
        }
        Ok(Self(uid))
    }

    /// The uid as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for XrUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
