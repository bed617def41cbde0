//! What an operation of the application can fail with: the domain refused, or a port failed.

use broker_domain::Error as DomainError;
use broker_ports::{FailureClass, PortError, PortName};

/// A failure of the application.
///
/// Programs branch on [`Error::reason`], people read the message and its sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The domain refused it.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// A collaborator failed.
    #[error("the {} failed", .port.as_str().replace('_', " "))]
    Port {
        /// Which one.
        port: PortName,
        /// How.
        #[source]
        source: PortError,
    },
    /// The lease would have ended before the next effect could be answered.
    #[error("the lease ran out before the pass was over")]
    LeaseRanOut,
    /// A defect of the broker or of its configuration. The caller's request is not at fault.
    #[error("{0}")]
    Internal(&'static str),
}

/// What a service tells its own callers, whichever part of the broker failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is wrong: a value, a parameter, or a reference to something that does not exist. HTTP 422.
    Invalid,
    /// The resource does not exist, or lies outside of the caller's scope. HTTP 404.
    NotFound,
    /// The request contradicts the present state, or what another request did. HTTP 409.
    Conflict,
    /// Store, cluster or another collaborator did not answer. The same request may succeed later. HTTP 503.
    Unavailable,
    /// A defect: of the broker, of its configuration, or of stored data. HTTP 500.
    Internal,
}

impl ErrorKind {
    /// The HTTP status that this kind stands for.
    ///
    /// ```
    /// use broker_app::{Error, ErrorKind};
    ///
    /// let refused = Error::from(broker_app::domain::Error::invalid("resource_id", "is empty"));
    /// assert_eq!((refused.kind(), refused.kind().http_status()), (ErrorKind::Invalid, 422));
    /// ```
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Invalid => 422,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Unavailable => 503,
            Self::Internal => 500,
        }
    }
}

/// Each port has three reasons, spelt out here so that metrics can carry them without allocating.
macro_rules! port_reasons {
    ($($port:ident: $rejected:literal $transient:literal $unknown:literal,)+) => {
        pub(crate) const fn port_reason(port: PortName, class: FailureClass) -> &'static str {
            match (port, class) {
                $(
                    (PortName::$port, FailureClass::Rejected) => $rejected,
                    (PortName::$port, FailureClass::Transient) => $transient,
                    (PortName::$port, FailureClass::Unknown) => $unknown,
                )+
            }
        }
    };
}

port_reasons! {
    Repository: "repository_rejected" "repository_transient" "repository_unknown",
    Schedule: "schedule_rejected" "schedule_transient" "schedule_unknown",
    Outbox: "outbox_rejected" "outbox_transient" "outbox_unknown",
    Cluster: "cluster_rejected" "cluster_transient" "cluster_unknown",
    TokenIssuer: "token_issuer_rejected" "token_issuer_transient" "token_issuer_unknown",
    NodeDeregistrar: "node_deregistrar_rejected" "node_deregistrar_transient" "node_deregistrar_unknown",
    BlueprintResolver: "blueprint_resolver_rejected" "blueprint_resolver_transient" "blueprint_resolver_unknown",
    CloudResolver: "cloud_resolver_rejected" "cloud_resolver_transient" "cloud_resolver_unknown",
    CredentialResolver: "credential_resolver_rejected" "credential_resolver_transient" "credential_resolver_unknown",
    AssignmentReader: "assignment_reader_rejected" "assignment_reader_transient" "assignment_reader_unknown",
    LabelTagResolver: "label_tag_resolver_rejected" "label_tag_resolver_transient" "label_tag_resolver_unknown",
    AuditSink: "audit_sink_rejected" "audit_sink_transient" "audit_sink_unknown",
    EventSink: "event_sink_rejected" "event_sink_transient" "event_sink_unknown",
}

impl Error {
    /// The stable code that programs branch on.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Domain(error) => error.reason(),
            // A domain error that an adapter recognised says more than "rejected".
            Self::Port { port, source } => source
                .domain()
                .map_or_else(|| port_reason(*port, source.class()), DomainError::reason),
            Self::LeaseRanOut => "lease_ran_out",
            Self::Internal(_) => "internal",
        }
    }

    /// What the domain refused, whether the application or a port noticed it.
    ///
    /// ```
    /// use broker_app::Error;
    /// use broker_app::ports::{PortError, PortName};
    ///
    /// let refused = || broker_app::domain::Error::invalid("resource_id", "names no existing resource");
    /// let early = Error::from(refused());
    /// let late = Error::Port { port: PortName::Repository, source: PortError::from(refused()) };
    /// for error in [early, late] {
    ///     assert_eq!(error.domain().map(|it| it.reason()), Some("invalid_input"));
    ///     assert_eq!(error.public_message(), "resource_id: names no existing resource");
    /// }
    /// ```
    pub fn domain(&self) -> Option<&DomainError> {
        match self {
            Self::Domain(error) => Some(error),
            Self::Port { source, .. } if source.is_refusal() => source.domain(),
            Self::Port { .. } | Self::LeaseRanOut | Self::Internal(_) => None,
        }
    }

    /// What to answer to a caller of the embedding service.
    pub fn kind(&self) -> ErrorKind {
        match (self.domain(), self) {
            (Some(refusal), _) => kind_of(refusal),
            (None, Self::Port { source, .. }) => match source.class() {
                FailureClass::Rejected => ErrorKind::Internal,
                FailureClass::Transient | FailureClass::Unknown => ErrorKind::Unavailable,
            },
            (None, Self::Internal(_)) => ErrorKind::Internal,
            (None, Self::Domain(_) | Self::LeaseRanOut) => ErrorKind::Unavailable,
        }
    }

    /// One line for an end user: what to change, or what to do. It names no server, no table and no collaborator; those
    /// stand in the error itself, for the log.
    pub fn public_message(&self) -> String {
        if let Some(refusal) = self.domain() {
            return refusal.to_string().replace('\n', " ");
        }
        let class = match self {
            Self::Port { source, .. } => source.class(),
            Self::Internal(_) => FailureClass::Rejected,
            Self::Domain(_) | Self::LeaseRanOut => FailureClass::Transient,
        };
        match class {
            FailureClass::Transient => "the service does not answer now; try again",
            FailureClass::Unknown => {
                "the request may have taken effect; send it again with the same request id"
            }
            FailureClass::Rejected => "the service has a defect; ask the operators of the platform",
        }
        .to_owned()
    }

    /// Whether the call was refused for what it asked, and not because a collaborator could not answer.
    pub fn is_refusal(&self) -> bool {
        self.domain().is_some()
    }

    /// Whether the broker's own footing is at fault (its store or its cluster could not be reached) and not
    /// the resource: that is what makes a replica unready.
    pub fn is_infrastructure(&self) -> bool {
        match self {
            Self::Port { port, source } => {
                let footing = matches!(
                    port,
                    PortName::Repository
                        | PortName::Schedule
                        | PortName::Outbox
                        | PortName::Cluster
                );
                footing && source.class() != FailureClass::Rejected
            }
            Self::Domain(_) | Self::LeaseRanOut | Self::Internal(_) => false,
        }
    }

    /// How long the other side asked to be left alone.
    pub const fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Port { source, .. } => source.retry_after(),
            Self::Domain(_) | Self::LeaseRanOut | Self::Internal(_) => None,
        }
    }
}

#[expect(
    clippy::match_same_arms,
    reason = "every variant is named; a new one is a refusal like the first"
)]
const fn kind_of(refusal: &DomainError) -> ErrorKind {
    match refusal {
        DomainError::InvalidInput { .. }
        | DomainError::ParameterValuesInvalid { .. }
        | DomainError::BlueprintNotFound(_)
        | DomainError::CloudNotFound(_)
        | DomainError::CredentialNotFound(_)
        | DomainError::ResourceNotFound(_) => ErrorKind::Invalid,
        DomainError::ProvisionedResourceNotFound(_) => ErrorKind::NotFound,
        DomainError::AssignmentNotFound(_)
        | DomainError::ClusterMismatch(_)
        | DomainError::StaleWrite { .. }
        | DomainError::IllegalTransition { .. }
        | DomainError::IdempotencyConflict { .. } => ErrorKind::Conflict,
        DomainError::NodeDeregistrationFailed { .. } => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}

/// An error with all of its sources, in one line.
pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.replace('\n', " ")
}

/// A failure in words, for schedules and reports: one line, cut to size.
pub(crate) fn in_words(error: &Error) -> String {
    broker_render::scrub(&one_line(error), &[])
}

/// The same for the schedule, led by why the cluster refused, so that an explanation can tell it later.
pub(crate) fn for_schedule(error: &Error) -> String {
    let words = in_words(error);
    match error {
        Error::Port { source, .. } => match source.refusal() {
            Some(refusal) => refusal.leading(&words),
            None => words,
        },
        Error::Domain(_) | Error::LeaseRanOut | Error::Internal(_) => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_failure_has_a_reason_of_port_and_class() {
        for port in PortName::ALL.iter().copied() {
            for class in FailureClass::ALL.iter().copied() {
                assert_eq!(port_reason(port, class), format!("{port}_{class}"));
            }
        }
    }

    #[test]
    fn a_recognised_domain_error_is_told_instead() {
        let source = PortError::from(DomainError::invalid("xr_name", "is empty"));
        let error = Error::Port { port: PortName::Repository, source };
        assert_eq!(error.reason(), "invalid_input");
        assert_eq!(
            one_line(&error),
            "the repository failed: the domain refused it: xr_name: is empty"
        );
    }

    #[test]
    fn stored_row_that_drifted_is_a_defect_and_no_refusal() {
        let drifted = DomainError::invalid("xr_name", "is empty");
        let source = PortError::rejected("a row breaks the rules").with_source(drifted);
        let error = Error::Port { port: PortName::Repository, source };
        assert_eq!((error.kind(), error.is_refusal()), (ErrorKind::Internal, false));
        assert_eq!(error.reason(), "invalid_input");
        assert!(!error.public_message().contains("row"), "{}", error.public_message());
    }

    #[test]
    fn failures_of_ports_have_the_kind_of_their_class() {
        let kind = |source| Error::Port { port: PortName::Cluster, source }.kind();
        assert_eq!(kind(PortError::transient("x")), ErrorKind::Unavailable);
        assert_eq!(kind(PortError::unknown("x")), ErrorKind::Unavailable);
        assert_eq!(kind(PortError::rejected("x")), ErrorKind::Internal);
        assert_eq!(Error::LeaseRanOut.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn defect_is_internal_and_its_public_message_hides_the_cause() {
        let defect = Error::Internal("the composite resource was not read");
        assert_eq!((defect.kind(), defect.is_refusal()), (ErrorKind::Internal, false));
        assert!(!defect.public_message().contains("composite"), "{}", defect.public_message());
    }

    #[test]
    fn infrastructure_is_the_store_and_the_cluster_when_they_do_not_answer() {
        let rows = [
            (PortName::Repository, PortError::transient("x"), true),
            (PortName::Cluster, PortError::unknown("x"), true),
            (PortName::Cluster, PortError::rejected("x"), false),
            (PortName::TokenIssuer, PortError::transient("x"), false),
        ];
        for (port, source, expected) in rows {
            assert_eq!(Error::Port { port, source }.is_infrastructure(), expected, "{port}");
        }
    }
}
