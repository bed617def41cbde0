//! What an error means to the caller.

use super::Error;

/// What a service tells its own callers, whichever part of it failed.
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
    /// use broker_domain::{Error, ErrorKind};
    ///
    /// let refused = Error::invalid("resource_id", "is empty");
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

impl Error {
    /// What the error means as a refusal of a request. A stored row that breaks a rule refuses no request: an adapter
    /// reports it as a failure of its port.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidInput { .. }
            | Self::ParameterValuesInvalid { .. }
            | Self::BlueprintNotFound(_)
            | Self::CloudNotFound(_)
            | Self::CredentialNotFound(_)
            | Self::ResourceNotFound(_) => ErrorKind::Invalid,
            Self::ProvisionedResourceNotFound(_) => ErrorKind::NotFound,
            Self::AssignmentNotFound(_)
            | Self::ClusterMismatch(_)
            | Self::StaleWrite { .. }
            | Self::IllegalTransition { .. }
            | Self::IdempotencyConflict { .. } => ErrorKind::Conflict,
            Self::NodeDeregistrationFailed { .. } => ErrorKind::Unavailable,
        }
    }
}
