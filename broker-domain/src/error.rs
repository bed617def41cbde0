//! The closed set of domain errors. Programs branch on [`Error::reason`]; people read the message.

mod kind;

pub use kind::ErrorKind;

use crate::ids::{
    BlueprintVersionId, CloudCredentialId, CloudId, ProjectId, ProvisionedResourceId, ResourceId,
};
use crate::phase::Phase;
use crate::request_id::RequestId;
use crate::version::Version;

/// An error of the domain.
///
/// Variants are only ever added. A released reason never changes its meaning.
///
/// ```
/// use broker_domain::ProjectId;
/// use uuid::Uuid;
///
/// let error = ProjectId::new(Uuid::nil()).unwrap_err();
/// assert_eq!(error.reason(), "invalid_input");
/// assert_eq!(error.to_string(), "project_id: is the nil UUID; give the id of a project");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value breaks a rule of its field: a caller's mistake, or a corrupt stored row.
    #[error("{field}: {problem}")]
    InvalidInput {
        /// The field, as rows and wire formats spell it.
        field: String,
        /// The problem, and the allowed values.
        problem: String,
    },
    /// The catalog has no such published blueprint version.
    #[error("blueprint version {0} is not published in the catalog")]
    BlueprintNotFound(BlueprintVersionId),
    /// The inventory has no such cloud.
    #[error("cloud {0} is not in the inventory")]
    CloudNotFound(CloudId),
    /// The credential does not exist or is not assigned to the requesting Project.
    #[error("cloud credential {0} does not exist or is not assigned to the project")]
    CredentialNotFound(CloudCredentialId),
    /// The Project is not assigned to a management cluster.
    #[error("project {0} is not assigned to a management cluster")]
    AssignmentNotFound(ProjectId),
    /// The parameter values do not fit the blueprint's schema.
    #[error("parameter values are invalid: {}", .problems.join("; "))]
    ParameterValuesInvalid {
        /// One entry per invalid parameter: path, problem, allowed values.
        problems: Vec<String>,
    },
    /// The resource does not exist, or the caller may not see it.
    #[error("provisioned resource {0} does not exist")]
    ProvisionedResourceNotFound(ProvisionedResourceId),
    /// The mesh could not deregister the Node. The substrate is untouched.
    #[error("the node of provisioned resource {resource} could not be deregistered")]
    NodeDeregistrationFailed {
        /// The resource whose teardown is blocked.
        resource: ProvisionedResourceId,
        /// The mesh's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync + 'static>,
    },
    /// A concurrent writer changed the resource first, and the caller stopped retrying.
    #[error("provisioned resource {resource} is no longer at version {expected}")]
    StaleWrite {
        /// The resource of the write.
        resource: ProvisionedResourceId,
        /// The version that the writer had read.
        expected: Version,
    },
    /// The state machine has no such edge.
    #[error("a resource in {from} cannot become {to}")]
    IllegalTransition {
        /// The current phase.
        from: Phase,
        /// The requested phase.
        to: Phase,
    },
    /// The request id belongs to an earlier, different declaration.
    #[error("request id {request} was already used in project {project} with another declaration")]
    IdempotencyConflict {
        /// The Project; request ids are unique within it.
        project: ProjectId,
        /// The reused request id.
        request: RequestId,
    },
    /// The Resource does not exist or belongs to another Project.
    #[error("resource {0} does not exist in the project")]
    ResourceNotFound(ResourceId),
    /// The Project is assigned to a management cluster that this replica does not serve.
    #[error("project {0} is assigned to another management cluster")]
    ClusterMismatch(ProjectId),
    /// The credential is past its validity.
    #[error("cloud credential {0} has expired")]
    CredentialExpired(CloudCredentialId),
    /// The owner of the credential revoked it.
    #[error("cloud credential {0} is revoked")]
    CredentialRevoked(CloudCredentialId),
    /// The assignment of the credential to the Project is requested, rejected or revoked.
    #[error("the assignment of cloud credential {0} to the project is not approved")]
    CredentialNotApproved(CloudCredentialId),
    /// The blueprint version takes no new declaration.
    #[error("blueprint version {0} is retired")]
    BlueprintRetired(BlueprintVersionId),
    /// Another resource of the Project uses the shared ProviderConfig of this name with another credential.
    #[error(
        "ProviderConfig {name} of the project has the credential of provisioned resource {holder}"
    )]
    SharedConfigHeld {
        /// The name of the ProviderConfig.
        name: String,
        /// A resource that uses it.
        holder: ProvisionedResourceId,
    },
}

/// An id whose lookup can miss. Ports return an `Option`; the caller maps `None` to this error.
///
/// ```
/// use broker_domain::{BlueprintVersionId, Error, NotFound};
/// use uuid::Uuid;
///
/// let id = BlueprintVersionId::new(Uuid::from_u128(9))?;
/// let error = None::<()>.ok_or(id.not_found()).unwrap_err();
/// assert_eq!(error.reason(), "blueprint_not_found");
/// # Ok::<(), Error>(())
/// ```
pub trait NotFound {
    /// The error for a missed lookup of this id.
    fn not_found(self) -> Error;
}

impl Error {
    /// Every value of [`Error::reason`].
    pub const REASONS: [&str; 18] = [
        "invalid_input",
        "blueprint_not_found",
        "cloud_not_found",
        "credential_not_found",
        "assignment_not_found",
        "parameter_values_invalid",
        "provisioned_resource_not_found",
        "node_deregistration_failed",
        "stale_write",
        "illegal_transition",
        "idempotency_conflict",
        "resource_not_found",
        "cluster_mismatch",
        "credential_expired",
        "credential_revoked",
        "credential_not_approved",
        "blueprint_retired",
        "shared_config_held",
    ];

    /// The stable snake-case code that programs branch on.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InvalidInput { .. } => "invalid_input",
            Self::BlueprintNotFound(_) => "blueprint_not_found",
            Self::CloudNotFound(_) => "cloud_not_found",
            Self::CredentialNotFound(_) => "credential_not_found",
            Self::AssignmentNotFound(_) => "assignment_not_found",
            Self::ParameterValuesInvalid { .. } => "parameter_values_invalid",
            Self::ProvisionedResourceNotFound(_) => "provisioned_resource_not_found",
            Self::NodeDeregistrationFailed { .. } => "node_deregistration_failed",
            Self::StaleWrite { .. } => "stale_write",
            Self::IllegalTransition { .. } => "illegal_transition",
            Self::IdempotencyConflict { .. } => "idempotency_conflict",
            Self::ResourceNotFound(_) => "resource_not_found",
            Self::ClusterMismatch(_) => "cluster_mismatch",
            Self::CredentialExpired(_) => "credential_expired",
            Self::CredentialRevoked(_) => "credential_revoked",
            Self::CredentialNotApproved(_) => "credential_not_approved",
            Self::BlueprintRetired(_) => "blueprint_retired",
            Self::SharedConfigHeld { .. } => "shared_config_held",
        }
    }

    /// Builds an [`Error::InvalidInput`].
    ///
    /// ```
    /// use broker_domain::Error;
    ///
    /// let error = Error::invalid("replicas", "is 0; use 1 to 9");
    /// assert_eq!(error.to_string(), "replicas: is 0; use 1 to 9");
    /// ```
    pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidInput { field: field.into(), problem: problem.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::id;

    /// One value of each variant, in the order of [`Error::REASONS`].
    fn every_error() -> Vec<Error> {
        let resource = id::<ProvisionedResourceId>(1);
        vec![
            Error::invalid("field", "problem"),
            Error::BlueprintNotFound(id(2)),
            Error::CloudNotFound(id(3)),
            Error::CredentialNotFound(id(4)),
            Error::AssignmentNotFound(id(5)),
            Error::ParameterValuesInvalid { problems: vec!["size: is missing".into()] },
            Error::ProvisionedResourceNotFound(resource),
            Error::NodeDeregistrationFailed { resource, source: "peer busy".into() },
            Error::StaleWrite { resource, expected: Version::FIRST },
            Error::IllegalTransition { from: Phase::Deleted, to: Phase::Ready },
            Error::IdempotencyConflict {
                project: id(5),
                request: RequestId::new("retry-1").unwrap(),
            },
            Error::ResourceNotFound(id(6)),
            Error::ClusterMismatch(id(5)),
            Error::CredentialExpired(id(4)),
            Error::CredentialRevoked(id(4)),
            Error::CredentialNotApproved(id(4)),
            Error::BlueprintRetired(id(2)),
            Error::SharedConfigHeld { name: "openstack".to_owned(), holder: resource },
        ]
    }

    #[test]
    fn error_reasons_equal_the_released_reasons() {
        let released = [
            "invalid_input",
            "blueprint_not_found",
            "cloud_not_found",
            "credential_not_found",
            "assignment_not_found",
            "parameter_values_invalid",
            "provisioned_resource_not_found",
            "node_deregistration_failed",
            "stale_write",
            "illegal_transition",
            "idempotency_conflict",
            "resource_not_found",
            "cluster_mismatch",
            "credential_expired",
            "credential_revoked",
            "credential_not_approved",
            "blueprint_retired",
            "shared_config_held",
        ];
        let reasons: Vec<_> = every_error().iter().map(Error::reason).collect();
        assert_eq!(reasons, released, "each variant has its own reason");
        assert_eq!(Error::REASONS, released, "the list is complete");
    }

    #[test]
    fn messages_are_one_line_and_do_not_repeat_their_source() {
        for error in every_error() {
            let message = error.to_string();
            assert!(!message.contains('\n'), "{message}");
            assert!(!message.ends_with('.'), "{message}");
            assert!(message.len() > 20 || matches!(error, Error::InvalidInput { .. }), "{message}");
            if let Some(source) = std::error::Error::source(&error) {
                assert!(!message.contains(&source.to_string()), "{message}");
            }
        }
    }
}
