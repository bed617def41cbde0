//! What can go wrong with one request, decided once: the cause, and from it the class of the port.
//!
//! Everything that the adapter reports goes through [`Failure`], so that each report names verb, kind, name
//! and namespace, and so that no other place decides what is known of a write.

use std::fmt;
use std::time::Duration;

use broker_domain::ObjectReference;
use broker_ports::{FailureClass, PortError, Refusal};
use broker_render::scrub;

/// Why a request did not succeed. It is the source of every [`PortError`] of this crate, for whoever wants
/// to tell more than three classes apart.
///
/// ```
/// use std::error::Error;
///
/// use broker_kube::Cause;
/// use broker_ports::PortError;
///
/// fn may_we(error: &PortError) -> bool {
///     let cause = error.source().and_then(|source| source.downcast_ref());
///     !matches!(cause, Some(Cause::Forbidden))
/// }
/// # assert!(may_we(&PortError::rejected("for another reason")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The API server serves no such kind.
    #[error("the kind is not served")]
    KindAbsent,
    /// There is no such object.
    #[error("the object does not exist")]
    ObjectAbsent,
    /// There is no such namespace.
    #[error("the namespace does not exist")]
    NamespaceAbsent,
    /// The namespace is being deleted and takes nothing new.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// We lack the right.
    #[error("forbidden")]
    Forbidden,
    /// The API server does not know who we are: a credential expired or was rotated. It concerns every
    /// request, so it is no fault of the object.
    #[error("not authenticated")]
    Unauthenticated,
    /// A rule of the schema was broken.
    #[error("invalid in {}", fields(.0))]
    Invalid(Vec<String>),
    /// Somebody else was there first.
    #[error("in conflict with another change")]
    Conflict,
    /// An admission webhook said no, such as that of a Usage.
    #[error("vetoed by admission")]
    Vetoed,
    /// A server error that answers an apply while the server is well: it cannot make sense of the object,
    /// most often of a field that the schema does not declare.
    #[error("the server cannot digest the object")]
    UnprocessableObject,
    /// The name of the object leads nowhere, so nothing was sent.
    #[error("the name leads nowhere")]
    Unaddressable,
    /// Any other refusal.
    #[error("refused with status {0}")]
    Refused(u16),
    /// The API server asks for patience.
    #[error("throttled")]
    Throttled,
    /// A list took so long that its next page is no longer to be had.
    #[error("the list has to begin anew")]
    Expired,
    /// The API server, or something in front of it, is not well.
    #[error("the server answered status {0}")]
    ServerError(u16),
    /// No connection came about, so nothing was sent.
    #[error("not connected")]
    Unreachable,
    /// The connection broke while the request was under way.
    #[error("the connection broke")]
    Broken,
    /// No answer came before the deadline.
    #[error("no answer in time")]
    Deadline,
    /// An answer came that makes no sense.
    #[error("the answer makes no sense")]
    Unreadable,
}

fn fields(fields: &[String]) -> String {
    if fields.is_empty() { "no field that is named".to_owned() } else { fields.join(", ") }
}

impl Cause {
    /// The cause in the words of the port, where an explanation follows from it.
    const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::KindAbsent => Some(Refusal::KindAbsent),
            Self::NamespaceAbsent => Some(Refusal::NamespaceAbsent),
            Self::NamespaceTerminating => Some(Refusal::NamespaceTerminating),
            Self::Forbidden => Some(Refusal::Forbidden),
            Self::Unauthenticated => Some(Refusal::Unauthenticated),
            Self::Invalid(_) | Self::UnprocessableObject => Some(Refusal::Schema),
            Self::Vetoed => Some(Refusal::Vetoed),
            Self::ObjectAbsent
            | Self::Conflict
            | Self::Unaddressable
            | Self::Refused(_)
            | Self::Throttled
            | Self::Expired
            | Self::ServerError(_)
            | Self::Unreachable
            | Self::Broken
            | Self::Deadline
            | Self::Unreadable => None,
        }
    }

    /// What the cause says of an operation.
    fn class(&self, verb: Verb) -> FailureClass {
        match self {
            Self::KindAbsent
            | Self::ObjectAbsent
            | Self::NamespaceAbsent
            | Self::NamespaceTerminating
            | Self::Forbidden
            | Self::Invalid(_)
            | Self::Vetoed
            | Self::UnprocessableObject
            | Self::Unaddressable
            | Self::Refused(_) => FailureClass::Rejected,
            Self::Unauthenticated
            | Self::Conflict
            | Self::Throttled
            | Self::Expired
            | Self::Unreachable => FailureClass::Transient,
            // The request may have been carried out before its answer was lost.
            Self::ServerError(_) | Self::Broken | Self::Deadline | Self::Unreadable => {
                if verb.changes_something() {
                    FailureClass::Unknown
                } else {
                    FailureClass::Transient
                }
            }
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Discover,
    DryRun,
    Apply,
    Delete,
}

impl Verb {
    const fn changes_something(self) -> bool {
        match self {
            Self::Apply | Self::Delete => true,
            Self::Get | Self::List | Self::Discover | Self::DryRun => false,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Discover => "discover",
            Self::DryRun => "dry-run apply",
            Self::Apply => "apply",
            Self::Delete => "delete",
        })
    }
}

/// A request as a person reads it: the verb, and kind, name and namespace of what it was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    verb: Verb,
    about: String,
}

impl Asked {
    pub(crate) fn of(verb: Verb, object: &ObjectReference) -> Self {
        Self { verb, about: object.to_string() }
    }

    /// Of every object of a kind, in one namespace or in all.
    pub(crate) fn of_all(
        verb: Verb,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Self {
        let within = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        Self { verb, about: format!("{kind}{within} ({api_version})") }
    }

    /// About something that is no object.
    pub(crate) fn about(verb: Verb, about: impl Into<String>) -> Self {
        Self { verb, about: about.into() }
    }

    pub(crate) const fn verb(&self) -> Verb {
        self.verb
    }

    /// How it failed, in words that hold no secret.
    pub(crate) fn failed(&self, cause: Cause, words: &str) -> Failure {
        self.failed_saying(cause, words, |message| scrub(message, &[]))
    }

    /// How it failed, in words that may repeat what was sent.
    pub(crate) fn failed_saying(
        &self,
        cause: Cause,
        words: &str,
        scrub: impl FnOnce(&str) -> String,
    ) -> Failure {
        let Self { verb, about } = self;
        // Scrubbed as it came, line breaks included; a report has one line.
        let message = scrub(&format!("{verb} {about}: {words}"));
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Failure { verb: *verb, cause, message, retry_after: None }
    }
}

/// A request that failed. Unlike a [`PortError`] it can be reported more than once: what is unknown of a
/// kind is unknown of each of its objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    verb: Verb,
    #[source]
    cause: Cause,
    message: String,
    retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn with_retry_after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }
}

impl From<Failure> for PortError {
    fn from(failure: Failure) -> Self {
        let Failure { verb, cause, message, retry_after } = failure;
        let error = match cause.class(verb) {
            FailureClass::Rejected => Self::rejected(message),
            FailureClass::Transient => Self::transient(message),
            FailureClass::Unknown => Self::unknown(message),
        };
        let error = match cause.refusal() {
            Some(refusal) => error.with_refusal(refusal),
            None => error,
        };
        let error = error.with_source(cause);
        match retry_after {
            Some(wait) => error.with_retry_after(wait),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_lost_answer_is_unknown_for_a_write_only() {
        use FailureClass::{Rejected, Transient, Unknown};
        let rows = [
            ("an answer that did not come", Cause::Deadline, Transient, Unknown),
            ("a connection that broke", Cause::Broken, Transient, Unknown),
            ("half an answer", Cause::Unreadable, Transient, Unknown),
            ("a gateway that gave up", Cause::ServerError(504), Transient, Unknown),
            ("nothing was sent", Cause::Unreachable, Transient, Transient),
            ("nothing was begun", Cause::Throttled, Transient, Transient),
            ("everybody is refused, not this object", Cause::Unauthenticated, Transient, Transient),
            ("it will not get better", Cause::Forbidden, Rejected, Rejected),
        ];
        for (why, cause, reading, writing) in rows {
            for verb in [Verb::Get, Verb::List, Verb::Discover, Verb::DryRun] {
                assert_eq!(cause.class(verb), reading, "{why}: {verb}");
            }
            for verb in [Verb::Apply, Verb::Delete] {
                assert_eq!(cause.class(verb), writing, "{why}: {verb}");
            }
        }
    }

    #[test]
    fn a_report_is_one_line_with_everything_in_it() {
        let object =
            ObjectReference::new("example.org/v1", "Machine", "pr-1", Some("home")).unwrap();
        let wait = Duration::from_secs(3);
        let failure = Asked::of(Verb::Apply, &object).failed_saying(
            Cause::Throttled,
            "slow\n down, token",
            |text| text.replace("token", "█"),
        );
        let error = PortError::from(failure.with_retry_after(Some(wait)));
        assert_eq!(error.to_string(), "apply Machine pr-1 in home (example.org/v1): slow down, █");
        assert_eq!(error.retry_after(), Some(wait));
        assert_eq!(error.source().unwrap().downcast_ref(), Some(&Cause::Throttled));
    }
}
