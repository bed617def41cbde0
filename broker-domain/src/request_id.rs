//! Declare stage: the caller's idempotency key.

use std::fmt;

use crate::error::Error;

/// The caller's idempotency key. Stored and shown in messages, so it must not be personal data: `@` and
/// spaces are rejected.
///
/// A retry with the same id in the same Project gets the first result; a different declaration under that id
/// is rejected.
///
/// ```
/// use broker_domain::RequestId;
///
/// assert_eq!(RequestId::new("order-4711/attempt-1")?.as_str(), "order-4711/attempt-1");
/// assert!(RequestId::new("two words").is_err());
/// assert!(RequestId::new("jane@example.org").is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// The maximum length in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Accepts 1 to 128 visible ASCII characters without `@`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the text is empty, too long or contains any other character.
    pub fn new(text: impl Into<String>) -> Result<Self, Error> {
        let text = text.into();
        let allowed = format!("use 1 to {} visible ASCII characters without @", Self::MAX_BYTES);
        let problem = if text.is_empty() {
            "is empty".to_owned()
        } else if text.len() > Self::MAX_BYTES {
            format!("is {} bytes long", text.len())
        } else if let Some(character) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '@') {
            format!("holds {character:?}")
        } else {
            return Ok(Self(text));
        };
        Err(Error::invalid("request_id", format!("{problem}; {allowed}")))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_request_id_is_rejected_with_allowed_values() {
        let long = "x".repeat(RequestId::MAX_BYTES + 1);
        for (text, problem) in [
            ("", "is empty"),
            (long.as_str(), "is 129 bytes long"),
            ("a b", "holds ' '"),
            ("a\nb", "holds '\\n'"),
            ("käse", "holds 'ä'"),
            ("jane@example.org", "holds '@'"),
        ] {
            assert_eq!(
                RequestId::new(text).unwrap_err().to_string(),
                format!("request_id: {problem}; use 1 to 128 visible ASCII characters without @")
            );
        }
        assert!(RequestId::new("x".repeat(RequestId::MAX_BYTES)).is_ok());
    }
}
