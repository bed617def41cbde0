//! Failures of one request: the cause, and the error class that follows from it.
//!
//! Every failed request is a [`Failure`], which names verb, kind, name and namespace. [`Cause::class`] alone decides
//! whether a write may have happened.

use std::fmt;
use std::time::Duration;

use broker_domain::{Error, ObjectReference};
use broker_ports::{FailureClass, PortError, Refusal};
use broker_render::scrub;

/// Why a request failed. It is the source of every [`PortError`] of this crate, for callers that need more detail
/// than the three error classes.
///
/// ```
/// use std::error::Error;
///
/// use broker_kube::Cause;
/// use broker_ports::PortError;
///
/// fn is_permitted(error: &PortError) -> bool {
///     let cause = error.source().and_then(|source| source.downcast_ref());
///     !matches!(cause, Some(Cause::Forbidden))
/// }
/// # assert!(is_permitted(&PortError::rejected("of another cause")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The API server does not serve the kind.
    #[error("the kind is not served")]
    KindAbsent,
    /// The object does not exist.
    #[error("the object does not exist")]
    ObjectAbsent,
    /// The namespace does not exist.
    #[error("the namespace does not exist")]
    NamespaceAbsent,
    /// The namespace is being deleted and accepts no new object.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// The broker lacks a permission.
    #[error("forbidden")]
    Forbidden,
    /// The API server does not accept the credential, for example because it expired. Every request fails, so the
    /// object is not at fault.
    #[error("not authenticated")]
    Unauthenticated,
    /// The object violates the schema in these fields.
    #[error("invalid in {}", field_list(.0))]
    Invalid(Vec<String>),
    /// Another writer changed the object first.
    #[error("in conflict with another change")]
    Conflict,
    /// Admission refused the request, for example a webhook that protects a Usage.
    #[error("vetoed by admission")]
    Vetoed,
    /// A 500 for an apply from a healthy server: it cannot process the object, usually because of a field that the
    /// schema does not declare.
    #[error("the server cannot process the object")]
    UnprocessableObject,
    /// The object name cannot form a path. Nothing was sent.
    #[error("the name cannot be addressed")]
    Unaddressable,
    /// Any other refusal.
    #[error("refused with status {0}")]
    Refused(u16),
    /// The API server limits the request rate.
    #[error("throttled")]
    Throttled,
    /// The continue token of a list has expired.
    #[error("the list has expired")]
    Expired,
    /// The API server, or a proxy in front of it, failed.
    #[error("the server sent status {0}")]
    ServerError(u16),
    /// No connection was established. Nothing was sent.
    #[error("not connected")]
    Unreachable,
    /// The connection broke during the request.
    #[error("the connection broke")]
    Broken,
    /// No response arrived before the deadline.
    #[error("no response before the deadline")]
    Deadline,
    /// The response cannot be interpreted.
    #[error("the response cannot be interpreted")]
    Unreadable,
}

fn field_list(fields: &[String]) -> String {
    if fields.is_empty() { "an unnamed field".to_owned() } else { fields.join(", ") }
}

impl Cause {
    /// The port's refusal reason, for the causes that `explain` reports.
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

    /// The error class of the cause for an operation.
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
            // The request may have been executed before its response was lost.
            Self::ServerError(_) | Self::Broken | Self::Deadline | Self::Unreadable => {
                if verb.is_write() { FailureClass::Unknown } else { FailureClass::Transient }
            }
        }
    }
}

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
    const fn is_write(self) -> bool {
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

/// A request as messages name it: verb, kind, name and namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestLabel {
    verb: Verb,
    subject: String,
}

impl RequestLabel {
    pub(crate) fn for_object(verb: Verb, object: &ObjectReference) -> Self {
        Self { verb, subject: object.to_string() }
    }

    /// All objects of a kind, in one namespace or in all.
    pub(crate) fn for_kind(
        verb: Verb,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Self {
        let in_namespace =
            namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        Self { verb, subject: format!("{kind}{in_namespace} ({api_version})") }
    }

    /// A subject that is not an object, such as a path.
    pub(crate) fn new(verb: Verb, subject: impl Into<String>) -> Self {
        Self { verb, subject: subject.into() }
    }

    pub(crate) const fn verb(&self) -> Verb {
        self.verb
    }

    /// For a text that holds no secret.
    pub(crate) fn failure(&self, cause: Cause, text: &str) -> Failure {
        self.failure_with_scrub(cause, text, |message| scrub(message, &[]))
    }

    /// For a text that may quote the request body.
    pub(crate) fn failure_with_scrub(
        &self,
        cause: Cause,
        text: &str,
        scrub: impl FnOnce(&str) -> String,
    ) -> Failure {
        let Self { verb, subject } = self;
        // Scrubs first: joined lines would hide a secret that contains a line break.
        let message = scrub(&format!("{verb} {subject}: {text}"));
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Failure { verb: *verb, cause, message, retry_after: None }
    }
}

/// A failed request. Unlike [`PortError`] it is `Clone`: a failed list fails for each of its objects.
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

/// A name from the cluster or the catalog breaks a domain rule. The caller's request is not at fault.
pub(crate) fn rule_violation(what: impl fmt::Display, error: Error) -> PortError {
    PortError::rejected(format!("{what} breaks the domain's rules")).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn lost_response_is_unknown_for_writes_only() {
        use FailureClass::{Rejected, Transient, Unknown};
        let rows = [
            ("a response that never arrived", Cause::Deadline, Transient, Unknown),
            ("a connection that broke", Cause::Broken, Transient, Unknown),
            ("a truncated response", Cause::Unreadable, Transient, Unknown),
            ("a gateway timeout", Cause::ServerError(504), Transient, Unknown),
            ("nothing was sent", Cause::Unreachable, Transient, Transient),
            ("the server started nothing", Cause::Throttled, Transient, Transient),
            (
                "the credential is refused, not the object",
                Cause::Unauthenticated,
                Transient,
                Transient,
            ),
            ("a retry cannot help", Cause::Forbidden, Rejected, Rejected),
        ];
        for (why, cause, read_class, write_class) in rows {
            for verb in [Verb::Get, Verb::List, Verb::Discover, Verb::DryRun] {
                assert_eq!(cause.class(verb), read_class, "{why}: {verb}");
            }
            for verb in [Verb::Apply, Verb::Delete] {
                assert_eq!(cause.class(verb), write_class, "{why}: {verb}");
            }
        }
    }

    #[test]
    fn failure_message_is_one_complete_line() {
        let object =
            ObjectReference::new("example.org/v1", "Machine", "pr-1", Some("home")).unwrap();
        let wait = Duration::from_secs(3);
        let failure = RequestLabel::for_object(Verb::Apply, &object).failure_with_scrub(
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
