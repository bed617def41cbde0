//! The closed set of domain errors. Programs branch on [`Error::reason`], people read the message.

use crate::ids::{
    BlueprintVersionId, CloudCredentialId, CloudId, ProjectId, ProvisionedResourceId, ResourceId,
};
use crate::phase::Phase;
use crate::request_id::RequestId;
use crate::version::Version;

/// Everything that the domain can refuse.
///
/// The set grows by addition only; a reason never changes its meaning once released.
///
/// ```
/// use broker_domain::ProjectId;
/// use uuid::Uuid;
///
/// let error = ProjectId::new(Uuid::nil()).unwrap_err();
/// assert_eq!(error.reason(), "invalid_input");
/// assert_eq!(error.to_string(), "project_id: the nil UUID names nothing; give the id of a project");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that breaks a rule of its field: a caller's mistake, or a stored row that drifted.
    #[error("{field}: {problem}")]
    InvalidInput {
        /// The field, in the spelling of rows and wire formats.
        field: String,
        /// What is wrong with it and what is allowed.
        problem: String,
    },
    /// The catalog has no such published blueprint version.
    #[error("blueprint version {0} is not published in the catalog")]
    BlueprintNotFound(BlueprintVersionId),
    /// The inventory has no such cloud.
    #[error("cloud {0} is not in the inventory")]
    CloudNotFound(CloudId),
    /// The credential does not exist, or was not assigned to the Project that asked.
    #[error("cloud credential {0} does not exist or is not assigned to the project")]
    CredentialNotFound(CloudCredentialId),
    /// The Project has not been placed on a management cluster.
    #[error("project {0} is not assigned to a management cluster")]
    AssignmentNotFound(ProjectId),
    /// The parameter values do not fit the blueprint's schema.
    #[error("parameter values are invalid: {}", .problems.join("; "))]
    ParameterValuesInvalid {
        /// One entry per offending parameter: its path, what is wrong, what is allowed.
        problems: Vec<String>,
    },
    /// No such resource, or none within the caller's scope.
    #[error("provisioned resource {0} does not exist")]
    ProvisionedResourceNotFound(ProvisionedResourceId),
    /// The Node could not be drained out of the mesh, so no substrate was touched.
    #[error("the node of provisioned resource {resource} could not be deregistered")]
    NodeDeregistrationFailed {
        /// The resource whose teardown waits.
        resource: ProvisionedResourceId,
        /// What the mesh said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync + 'static>,
    },
    /// Somebody else changed the resource first, and the caller gave up.
    #[error("provisioned resource {resource} is no longer at version {expected}")]
    StaleWrite {
        /// The resource.
        resource: ProvisionedResourceId,
        /// The version that the change was made from.
        expected: Version,
    },
    /// The edge is not in the state machine.
    #[error("a resource in {from} cannot become {to}")]
    IllegalTransition {
        /// The phase that the resource is in.
        from: Phase,
        /// The phase that was asked for.
        to: Phase,
    },
    /// The request id was used before, with another declaration.
    #[error("request id {request} was already used in project {project} with another declaration")]
    IdempotencyConflict {
        /// The Project, in which request ids are unique.
        project: ProjectId,
        /// The request id.
        request: RequestId,
    },
    /// The Resource does not exist, or belongs to another Project than the one that asked.
    #[error("resource {0} does not exist in the project")]
    ResourceNotFound(ResourceId),
    /// The Project is assigned to another management cluster than the one that this replica serves.
    #[error("project {0} is assigned to another management cluster")]
    ClusterMismatch(ProjectId),
}

/// What a lookup by id can miss. Ports answer with an `Option`; whoever needs the thing turns the
/// absence into the matching error.
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
    /// The error that says so.
    fn not_found(self) -> Error;
}

impl Error {
    /// Every reason that [`Error::reason`] can give.
    pub const REASONS: [&str; 13] = [
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
    ];

    /// The stable code, in snake case, that programs branch on.
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
        }
    }

    /// An [`Error::InvalidInput`] for a field.
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
        ]
    }

    #[test]
    fn the_reasons_are_pinned_and_only_ever_added_to() {
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
        ];
        let given: Vec<_> = every_error().iter().map(Error::reason).collect();
        assert_eq!(given, released, "each variant gives its own reason");
        assert_eq!(Error::REASONS, released, "and the list is whole");
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
