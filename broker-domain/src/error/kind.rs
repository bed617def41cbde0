//! The category of an error, for callers of a service.

use super::Error;

/// The category of an error, for callers of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is wrong: a value, a parameter, or a reference to something that does not exist. HTTP 422.
    Invalid,
    /// The resource does not exist, or lies outside of the caller's scope. HTTP 404.
    NotFound,
    /// The request contradicts the current state or another request. HTTP 409.
    Conflict,
    /// Store, cluster or another collaborator did not respond. A retry may succeed. HTTP 503.
    Unavailable,
    /// A defect of the broker, its configuration or stored data. HTTP 500.
    Internal,
}

impl ErrorKind {
    /// The HTTP status of this kind.
    ///
    /// ```
    /// use broker_domain::{Error, ErrorKind};
    ///
    /// let error = Error::invalid("resource_id", "is empty");
    /// assert_eq!((error.kind(), error.kind().http_status()), (ErrorKind::Invalid, 422));
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
    /// The category when a request caused the error. For a corrupt stored row, an adapter returns a port error instead.
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
            | Self::CredentialExpired(_)
            | Self::CredentialRevoked(_)
            | Self::CredentialNotApproved(_)
            | Self::BlueprintRetired(_)
            | Self::SharedConfigHeld { .. }
            | Self::StaleWrite { .. }
            | Self::IllegalTransition { .. }
            | Self::IdempotencyConflict { .. } => ErrorKind::Conflict,
            Self::NodeDeregistrationFailed { .. } => ErrorKind::Unavailable,
        }
    }
}
