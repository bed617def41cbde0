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
        }
    }

    /// Whether the call was refused for what it asked, and not because a collaborator could not answer.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Domain(_) => true,
            Self::Port { source, .. } => source.domain().is_some(),
            Self::LeaseRanOut => false,
        }
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
            Self::Domain(_) | Self::LeaseRanOut => false,
        }
    }

    /// How long the other side asked to be left alone.
    pub const fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Port { source, .. } => source.retry_after(),
            Self::Domain(_) | Self::LeaseRanOut => None,
        }
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
        Error::Domain(_) | Error::LeaseRanOut => words,
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
