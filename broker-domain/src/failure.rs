//! A terminal failure: its phase and its reason, stored on the row.

use std::fmt;

use crate::error::Error;
use crate::phase::Phase;

/// A terminal failure: the phase in which it happened and the Composition's message.
///
/// ```
/// use broker_domain::{Failure, FailureReason, Phase};
///
/// let failure = Failure::new(Phase::Provisioning, FailureReason::from_message("quota exceeded"))?;
/// assert_eq!(failure.step(), Phase::Provisioning);
/// assert_eq!(failure.reason().as_str(), "quota exceeded");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    step: Phase,
    reason: FailureReason,
}

impl Failure {
    /// A failure in a converging phase.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for a phase that cannot fail terminally.
    pub fn new(step: Phase, reason: FailureReason) -> Result<Self, Error> {
        if !step.is_converging() {
            return Err(Error::invalid(
                "failure_step",
                format!("is {step}; a resource fails in Pending, Provisioning, Enrolling or Ready"),
            ));
        }
        Ok(Self { step, reason })
    }

    /// The phase in which the resource failed.
    pub const fn step(&self) -> Phase {
        self.step
    }

    /// The Composition's message.
    pub const fn reason(&self) -> &FailureReason {
        &self.reason
    }
}

/// A failure message: one line for people, never a code to branch on.
///
/// The caller must scrub it first: it enters rows, events and logs.
///
/// ```
/// use broker_domain::FailureReason;
///
/// let reason = FailureReason::from_message("quota exceeded in region eu-1");
/// assert_eq!(reason.to_string(), "quota exceeded in region eu-1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FailureReason(String);

impl FailureReason {
    /// The maximum length in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Normalises a message: runs of white space and control characters become one space, excess bytes are
    /// cut at a character boundary, and an empty message gets a placeholder.
    ///
    /// ```
    /// use broker_domain::FailureReason;
    ///
    /// assert_eq!(FailureReason::from_message("no\n  capacity ").as_str(), "no capacity");
    /// assert_eq!(FailureReason::from_message("").as_str(), "no message was given");
    /// ```
    pub fn from_message(message: &str) -> Self {
        let words = message.split(|c: char| c.is_whitespace() || c.is_control());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let mut text = words.join(" ");
        if text.is_empty() {
            "no message was given".clone_into(&mut text);
        }
        text.truncate(text.floor_char_boundary(Self::MAX_BYTES));
        text.truncate(text.trim_end().len());
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Strict parsing for stored rows.
impl TryFrom<String> for FailureReason {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let problem = if text.trim().is_empty() {
            "is blank".to_owned()
        } else if text.len() > Self::MAX_BYTES {
            format!("is {} bytes long; use at most {}", text.len(), Self::MAX_BYTES)
        } else if let Some(control) = text.chars().find(|c| c.is_control()) {
            format!("holds {control:?}; use one line of text")
        } else {
            return Ok(Self(text));
        };
        Err(Error::invalid("failure_reason", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_is_cut_at_character_boundary() {
        let message = "ü".repeat(FailureReason::MAX_BYTES);
        let reason = FailureReason::from_message(&format!("x{message}"));
        assert_eq!(reason.as_str().len(), FailureReason::MAX_BYTES - 1);
        assert!(
            FailureReason::try_from(reason.as_str().to_owned()).is_ok(),
            "rows accept the result"
        );
    }

    #[test]
    fn message_is_normalised_to_one_line() {
        let message = "no\0 capacity\u{1b}[31m in\n\teu-1 ";
        assert_eq!(FailureReason::from_message(message).as_str(), "no capacity [31m in eu-1");
        let cut =
            FailureReason::from_message(&format!("{} y", "x".repeat(FailureReason::MAX_BYTES - 1)));
        assert_eq!(
            cut.as_str().len(),
            FailureReason::MAX_BYTES - 1,
            "the cut leaves no trailing space"
        );
    }

    #[test]
    fn invalid_stored_reason_is_rejected() {
        let limit = FailureReason::MAX_BYTES;
        assert!(FailureReason::try_from("x".repeat(limit)).is_ok());
        for (text, problem) in [
            (String::new(), "is blank"),
            ("  ".to_owned(), "is blank"),
            ("x".repeat(limit + 1), "is 1025 bytes long; use at most 1024"),
            ("a\nb".to_owned(), "holds '\\n'; use one line of text"),
        ] {
            let error = FailureReason::try_from(text).unwrap_err();
            assert_eq!(error.to_string(), format!("failure_reason: {problem}"));
        }
    }
}
