//! Port errors, in three classes that the adapter chooses.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use broker_domain::ErrorKind;

use crate::refusal::Refusal;

/// What the adapter knows about a failed operation.
///
/// ```
/// use broker_ports::{FailureClass, PortError};
///
/// let error = PortError::unknown("the connection broke after the request was sent");
/// assert_eq!(error.class(), FailureClass::Unknown);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum FailureClass {
    /// The operation did not happen, and a retry fails the same way until someone changes the input or the system.
    Rejected,
    /// The operation did not happen. A retry may succeed.
    Transient,
    /// The operation may have happened. The caller must read the state before it decides.
    Unknown,
}

/// The error of every port.
///
/// The message is for people: one line, no secret. Code branches on the class and on [`PortError::domain`].
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    class: FailureClass,
    message: String,
    is_refusal: bool,
    retry_after: Option<Duration>,
    refusal: Option<Refusal>,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync + 'static>>,
}

impl PortError {
    fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            is_refusal: false,
            retry_after: None,
            refusal: None,
            source: None,
        }
    }

    /// An error of class [`FailureClass::Rejected`].
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(FailureClass::Rejected, message)
    }

    /// An error of class [`FailureClass::Transient`].
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(FailureClass::Transient, message)
    }

    /// An error of class [`FailureClass::Unknown`].
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(FailureClass::Unknown, message)
    }

    /// Sets the cause. The message does not repeat it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets the back-off that the server requested.
    #[must_use]
    pub const fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Sets why the cluster refused the request.
    #[must_use]
    pub const fn with_refusal(mut self, refusal: Refusal) -> Self {
        self.refusal = Some(refusal);
        self
    }

    /// Why the cluster refused the request, if the adapter knows.
    pub const fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Whether the domain refused the caller's input; [`domain`](Self::domain) then has the reason.
    pub const fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// The failure class.
    pub const fn class(&self) -> FailureClass {
        self.class
    }

    /// The back-off that the server requested.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The domain error behind a rejection, if the adapter recognised one. For example, a missing foreign key parent is
    /// an unpublished blueprint.
    ///
    /// ```
    /// use broker_domain::Error;
    /// use broker_ports::PortError;
    ///
    /// let error = PortError::from(Error::invalid("xr_name", "is empty"));
    /// assert_eq!(error.domain().unwrap().reason(), "invalid_input");
    /// ```
    pub fn domain(&self) -> Option<&broker_domain::Error> {
        self.source.as_deref()?.downcast_ref()
    }
}

/// A refusal of the caller's input: the same call fails the same way. For a stored row that breaks a domain rule, use
/// [`rejected`](PortError::rejected) with the domain error as the source.
impl From<broker_domain::Error> for PortError {
    fn from(error: broker_domain::Error) -> Self {
        Self {
            is_refusal: true,
            ..Self::rejected("the domain rejected the input").with_source(error)
        }
    }
}

/// The port that failed, for reasons and metrics. `Clock` and `IdSource` cannot fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the port of its name")]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum PortName {
    Repository,
    Schedule,
    Outbox,
    Cluster,
    TokenIssuer,
    NodeDeregistrar,
    BlueprintResolver,
    CloudResolver,
    CredentialResolver,
    AssignmentReader,
    ResourceReader,
    AuditSink,
    EventSink,
}

impl PortName {
    /// Every port.
    pub const ALL: &[Self] = &[
        Self::Repository,
        Self::Schedule,
        Self::Outbox,
        Self::Cluster,
        Self::TokenIssuer,
        Self::NodeDeregistrar,
        Self::BlueprintResolver,
        Self::CloudResolver,
        Self::CredentialResolver,
        Self::AssignmentReader,
        Self::ResourceReader,
        Self::AuditSink,
        Self::EventSink,
    ];

    /// The port's name in snake case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Schedule => "schedule",
            Self::Outbox => "outbox",
            Self::Cluster => "cluster",
            Self::TokenIssuer => "token_issuer",
            Self::NodeDeregistrar => "node_deregistrar",
            Self::BlueprintResolver => "blueprint_resolver",
            Self::CloudResolver => "cloud_resolver",
            Self::CredentialResolver => "credential_resolver",
            Self::AssignmentReader => "assignment_reader",
            Self::ResourceReader => "resource_reader",
            Self::AuditSink => "audit_sink",
            Self::EventSink => "event_sink",
        }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FailureClass {
    /// Every class.
    pub const ALL: &[Self] = &[Self::Rejected, Self::Transient, Self::Unknown];

    /// The class's name in snake case, the suffix of a reason such as `cluster_transient`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Transient => "transient",
            Self::Unknown => "unknown",
        }
    }

    /// The kind of a failure of this class. A refusal has the kind of its domain error instead.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::Rejected => ErrorKind::Internal,
            Self::Transient | Self::Unknown => ErrorKind::Unavailable,
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_error_becomes_a_rejection_with_its_source() {
        let error = PortError::from(broker_domain::Error::invalid("phase", "is unknown"));
        assert_eq!(error.class(), FailureClass::Rejected);
        assert_eq!(error.to_string(), "the domain rejected the input");
        assert_eq!(error.domain().unwrap().to_string(), "phase: is unknown");
        assert!(PortError::transient("busy").domain().is_none());
    }

    #[test]
    fn port_and_class_names_equal_the_released_names() {
        assert_eq!(
            PortName::ALL.iter().map(|port| port.as_str()).collect::<Vec<_>>().join(" "),
            "repository schedule outbox cluster token_issuer node_deregistrar blueprint_resolver \
             cloud_resolver credential_resolver assignment_reader resource_reader audit_sink \
             event_sink"
        );
        let classes: Vec<_> = FailureClass::ALL.iter().map(|class| class.as_str()).collect();
        assert_eq!(classes, ["rejected", "transient", "unknown"]);
    }
}
