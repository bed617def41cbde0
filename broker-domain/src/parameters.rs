//! A resource's parameter values, after the blueprint's schema accepted them.

use std::fmt;

use crate::error::Error;

/// Validated parameter values as canonical JSON text: an object, keys sorted, no spaces, defaults filled in.
///
/// Opaque here: the render crate validates and writes them, this crate only carries them. They are as
/// immutable as the blueprint version that they were validated against. No secret is among them, because
/// a secret parameter holds a reference to a Secret and never a value.
///
/// ```
/// use broker_domain::Parameters;
///
/// let parameters = Parameters::from_canonical_json(r#"{"size":"small"}"#)?;
/// assert_eq!(parameters.as_json(), r#"{"size":"small"}"#);
/// assert_eq!(Parameters::default().as_json(), "{}");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parameters(String);

impl Parameters {
    /// Takes text that a schema validated, or that a row kept.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the text is not that of a JSON object. Only the outermost braces are
    /// looked at: whoever validated the values wrote them.
    pub fn from_canonical_json(text: impl Into<String>) -> Result<Self, Error> {
        let text = text.into();
        if !text.starts_with('{') || !text.ends_with('}') {
            return Err(Error::invalid("parameters", "is not the text of a JSON object"));
        }
        Ok(Self(text))
    }

    /// The canonical text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

/// No parameters: the empty object.
impl Default for Parameters {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

/// Values belong to the operator; a log line gets their size.
impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameters({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_of_an_object_is_taken() {
        for text in ["", "[]", "null", "{", "}", " {}", "{}\n"] {
            let error = Parameters::from_canonical_json(text);
            assert!(error.is_err(), "{text:?}");
        }
    }

    #[test]
    fn debug_shows_no_values() {
        let parameters = Parameters::from_canonical_json(r#"{"note":"canary"}"#).unwrap();
        assert_eq!(format!("{parameters:?}"), "Parameters(17 bytes)");
    }
}
