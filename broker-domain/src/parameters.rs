//! The validated parameter values of a resource.

use std::fmt;

use crate::error::Error;

/// Validated parameter values as canonical JSON text: an object with sorted keys, no spaces, and defaults
/// filled in.
///
/// Opaque to this crate; the render crate validates and writes them. They are immutable, like the blueprint
/// version they were validated against. They contain no secret: a secret parameter holds a reference to a
/// Secret.
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
    /// Accepts text that a schema validated or that a row stored.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the text does not begin and end with a brace. The validator checked the
    /// rest.
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

impl Default for Parameters {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

/// Prints the size of the values only: they belong to the operator.
impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameters({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_accept_only_json_objects() {
        for text in ["", "[]", "null", "{", "}", " {}", "{}\n"] {
            let result = Parameters::from_canonical_json(text);
            assert!(result.is_err(), "{text:?}");
        }
    }

    #[test]
    fn debug_omits_parameter_values() {
        let parameters = Parameters::from_canonical_json(r#"{"note":"canary"}"#).unwrap();
        assert_eq!(format!("{parameters:?}"), "Parameters(17 bytes)");
    }
}
