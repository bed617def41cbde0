//! The errors of the application: the domain refused a request, the platform's data is invalid, or a port failed.

pub use broker_domain::ErrorKind;

use broker_domain::Error as DomainError;
use broker_ports::{FailureClass, PortError, PortName};

/// A failure of the application.
///
/// Programs branch on [`Error::reason`]; people read the message and its sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The domain refused the request.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// Data of the platform is invalid: in the catalog, the inventory or an assignment. The caller's request is valid.
    #[error(transparent)]
    Platform(DomainError),
    /// A port failed.
    #[error("the {} failed", .port.as_str().replace('_', " "))]
    Port {
        /// The port.
        port: PortName,
        /// The error of the port.
        #[source]
        source: PortError,
    },
    /// The lease would have ended during the next call.
    #[error("the lease ran out before the pass was over")]
    LeaseRanOut,
    /// A defect of the broker or of its configuration. The caller's request is valid.
    #[error("{0}")]
    Internal(&'static str),
}

/// Each port has three reasons. They are literals, so that metrics need no allocation.
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
    ResourceReader: "resource_reader_rejected" "resource_reader_transient" "resource_reader_unknown",
    AuditSink: "audit_sink_rejected" "audit_sink_transient" "audit_sink_unknown",
    EventSink: "event_sink_rejected" "event_sink_transient" "event_sink_unknown",
}

impl Error {
    /// The stable code that programs branch on.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Domain(refusal) => refusal.reason(),
            Self::Platform(_) => "platform_misconfigured",
            // The reason of a domain error is more precise than "rejected".
            Self::Port { port, source } => domain_refusal(source)
                .map_or_else(|| port_reason(*port, source.class()), DomainError::reason),
            Self::LeaseRanOut => "lease_ran_out",
            Self::Internal(_) => "internal",
        }
    }

    /// The domain error of a refusal, whether the application or a port detected it.
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
            Self::Domain(refusal) => Some(refusal),
            Self::Port { source, .. } => domain_refusal(source),
            Self::Platform(_) | Self::LeaseRanOut | Self::Internal(_) => None,
        }
    }

    /// The kind, for the response of the embedding service.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Domain(refusal) => refusal.kind(),
            Self::Port { source, .. } => {
                domain_refusal(source).map_or_else(|| source.class().kind(), DomainError::kind)
            }
            Self::LeaseRanOut => ErrorKind::Unavailable,
            Self::Platform(_) | Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// One line for an end user: what to change or what to do. It names no server, table or port; the error itself names
    /// them, for the log.
    pub fn public_message(&self) -> String {
        let class = match self {
            Self::Domain(refusal) => return in_one_line(refusal),
            Self::Port { source, .. } => match domain_refusal(source) {
                Some(refusal) => return in_one_line(refusal),
                None => source.class(),
            },
            Self::LeaseRanOut => FailureClass::Transient,
            Self::Platform(_) | Self::Internal(_) => FailureClass::Rejected,
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

    /// Whether the request was refused, and not because a port failed.
    pub fn is_refusal(&self) -> bool {
        self.domain().is_some()
    }

    /// Whether the store or the cluster did not answer. Such an error concerns no single resource, and makes a replica
    /// unready.
    pub fn is_infrastructure(&self) -> bool {
        match self {
            Self::Port { port, source } => {
                let is_store_or_cluster = matches!(
                    port,
                    PortName::Repository
                        | PortName::Schedule
                        | PortName::Outbox
                        | PortName::Cluster
                );
                is_store_or_cluster && source.class() != FailureClass::Rejected
            }
            Self::Domain(_) | Self::Platform(_) | Self::LeaseRanOut | Self::Internal(_) => false,
        }
    }

    /// The delay before a retry that the other side requested.
    pub const fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Port { source, .. } => source.retry_after(),
            Self::Domain(_) | Self::Platform(_) | Self::LeaseRanOut | Self::Internal(_) => None,
        }
    }
}

/// The domain error that refuses the request; `None` if it only describes corrupt data.
fn domain_refusal(source: &PortError) -> Option<&DomainError> {
    source.domain().filter(|_| source.is_refusal())
}

fn in_one_line(refusal: &DomainError) -> String {
    refusal.to_string().replace('\n', " ")
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

/// The error in one line of limited length, for schedules and reports.
pub(crate) fn error_message(error: &Error) -> String {
    broker_render::scrub(&one_line(error), &[])
}

/// The error for the schedule. It starts with the kind of refusal, so that an explanation can parse it.
pub(crate) fn schedule_message(error: &Error) -> String {
    let words = error_message(error);
    match error {
        Error::Port { source, .. } => match source.refusal() {
            Some(refusal) => refusal.prefix(&words),
            None => words,
        },
        Error::Domain(_) | Error::Platform(_) | Error::LeaseRanOut | Error::Internal(_) => words,
    }
}

#[cfg(test)]
mod tests {
    use broker_domain::{Phase, RequestId, Version};
    use broker_testkit::builders::id;

    use super::*;

    const DEFECT: &str = "the service has a defect; ask the operators of the platform";

    #[test]
    fn port_failure_has_a_reason_of_port_and_class() {
        for port in PortName::ALL.iter().copied() {
            for class in FailureClass::ALL.iter().copied() {
                assert_eq!(port_reason(port, class), format!("{port}_{class}"));
            }
        }
    }

    #[test]
    fn domain_error_of_a_port_determines_the_reason() {
        let source = PortError::from(DomainError::invalid("xr_name", "is empty"));
        let error = Error::Port { port: PortName::Repository, source };
        assert_eq!(error.reason(), "invalid_input");
        assert_eq!(
            one_line(&error),
            "the repository failed: the domain rejected the input: xr_name: is empty"
        );
    }

    #[test]
    fn invalid_stored_row_is_a_defect_not_a_refusal() {
        let invalid = DomainError::invalid("xr_name", "is empty");
        let source = PortError::rejected("a row breaks the rules").with_source(invalid);
        let error = Error::Port { port: PortName::Repository, source };
        assert_eq!((error.kind(), error.is_refusal()), (ErrorKind::Internal, false));
        assert_eq!(
            error.reason(),
            "repository_rejected",
            "the reason of the port, not of a refusal"
        );
        assert_eq!(error.public_message(), DEFECT);
        assert!(one_line(&error).ends_with("xr_name: is empty"), "{}", one_line(&error));
    }

    #[test]
    fn invalid_platform_data_is_a_defect_and_names_the_field() {
        let error = Error::Platform(DomainError::invalid("cloud.endpoint", "is not an object"));
        assert_eq!((error.kind(), error.is_refusal()), (ErrorKind::Internal, false));
        assert_eq!((error.reason(), error.is_infrastructure()), ("platform_misconfigured", false));
        assert_eq!(error.public_message(), DEFECT);
        assert_eq!(one_line(&error), "cloud.endpoint: is not an object");
    }

    /// Every variant, in the order of its reasons. The message of a refusal is its own text.
    #[test]
    fn every_refusal_has_a_kind_a_status_and_a_message() {
        use ErrorKind::{Conflict, Invalid, NotFound, Unavailable};
        let resource = id(1);
        let (from, to) = (Phase::Deleted, Phase::Ready);
        let request = RequestId::new("order-1").unwrap();
        let rows = [
            (DomainError::invalid("size", "is 0; use 1"), Invalid, 422, "size: is 0"),
            (DomainError::BlueprintNotFound(id(2)), Invalid, 422, "is not published"),
            (DomainError::CloudNotFound(id(3)), Invalid, 422, "is not in the inventory"),
            (DomainError::CredentialNotFound(id(4)), Invalid, 422, "or is not assigned"),
            (DomainError::AssignmentNotFound(id(5)), Conflict, 409, "is not assigned"),
            (
                DomainError::ParameterValuesInvalid { problems: vec!["size: is missing".into()] },
                Invalid,
                422,
                "size: is missing",
            ),
            (DomainError::ProvisionedResourceNotFound(resource), NotFound, 404, "does not exist"),
            (
                DomainError::NodeDeregistrationFailed { resource, source: "10.0.0.7 busy".into() },
                Unavailable,
                503,
                "could not be deregistered",
            ),
            (
                DomainError::StaleWrite { resource, expected: Version::FIRST },
                Conflict,
                409,
                "is no longer at version",
            ),
            (DomainError::IllegalTransition { from, to }, Conflict, 409, "cannot become Ready"),
            (
                DomainError::IdempotencyConflict { project: id(5), request },
                Conflict,
                409,
                "was already used",
            ),
            (DomainError::ResourceNotFound(id(6)), Invalid, 422, "does not exist in the project"),
            (DomainError::ClusterMismatch(id(5)), Conflict, 409, "another management cluster"),
            (DomainError::CredentialExpired(id(4)), Conflict, 409, "has expired"),
            (DomainError::CredentialRevoked(id(4)), Conflict, 409, "is revoked"),
            (DomainError::CredentialNotApproved(id(4)), Conflict, 409, "is not approved"),
            (DomainError::BlueprintRetired(id(2)), Conflict, 409, "is retired"),
            (
                DomainError::SharedConfigHeld { name: "openstack".to_owned(), holder: id(7) },
                Conflict,
                409,
                "ProviderConfig openstack of the project has the credential of",
            ),
        ];
        let reasons: Vec<_> = rows.iter().map(|(refusal, ..)| refusal.reason()).collect();
        assert_eq!(reasons, DomainError::REASONS, "every variant has a row, in this order");
        for (refusal, kind, status, words) in rows {
            let reason = refusal.reason();
            let error = Error::from(refusal);
            assert_eq!((error.kind(), error.kind().http_status()), (kind, status), "{reason}");
            assert_eq!((error.reason(), error.is_refusal()), (reason, true));
            let message = error.public_message();
            assert!(message.contains(words) && !message.contains('\n'), "{reason}: {message}");
            assert!(!message.contains("10.0.0.7"), "the message quotes its source: {message}");
        }
    }

    #[test]
    fn kind_of_a_port_failure_follows_its_class() {
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
    fn unanswered_store_or_cluster_is_an_infrastructure_error() {
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
