//! Declare stage: the request of a Project operator.

use std::fmt;

use crate::ids::{BlueprintVersionId, CloudCredentialId, ProjectId, ResourceId};
use crate::request_id::RequestId;
use crate::roles::OnFailure;

/// A Project operator's request for one resource.
///
/// The parameters are unvalidated JSON text; admission checks them against the blueprint's schema. The
/// blueprint, not the caller, determines whether a Node enrols.
///
/// ```
/// use broker_domain::{BlueprintVersionId, CloudCredentialId, Declaration, OnFailure, ProjectId, RequestId,
/// ResourceId}; use uuid::Uuid;
///
/// let declaration = Declaration::new(
///     ProjectId::new(Uuid::from_u128(1))?,
///     ResourceId::new(Uuid::from_u128(2))?,
///     BlueprintVersionId::new(Uuid::from_u128(3))?,
///     CloudCredentialId::new(Uuid::from_u128(4))?,
/// )
/// .with_parameters(r#"{"size": "small"}"#)
/// .on_failure(OnFailure::Rollback)
/// .with_request_id(RequestId::new("order-4711")?);
/// assert_eq!(declaration.parameters, r#"{"size": "small"}"#);
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Declaration {
    /// The Project that owns the resource.
    pub project_id: ProjectId,
    /// The tenancy Resource that the substrate will back.
    pub resource_id: ResourceId,
    /// The blueprint version to render from.
    pub blueprint_version_id: BlueprintVersionId,
    /// The credential, which also determines the cloud.
    pub cloud_credential_id: CloudCredentialId,
    /// Parameter values as received: the text of a JSON object.
    pub parameters: String,
    /// The policy after a terminal failure.
    pub on_failure: OnFailure,
    /// The caller's idempotency key; with it, a retry is a no-op.
    pub request_id: Option<RequestId>,
}

impl Declaration {
    /// A declaration without parameters or request id, with [`OnFailure::Retain`].
    pub fn new(
        project_id: ProjectId,
        resource_id: ResourceId,
        blueprint_version_id: BlueprintVersionId,
        cloud_credential_id: CloudCredentialId,
    ) -> Self {
        Self {
            project_id,
            resource_id,
            blueprint_version_id,
            cloud_credential_id,
            parameters: "{}".to_owned(),
            on_failure: OnFailure::Retain,
            request_id: None,
        }
    }

    /// Sets the parameter values: the text of a JSON object.
    #[must_use]
    pub fn with_parameters(mut self, json: impl Into<String>) -> Self {
        self.parameters = json.into();
        self
    }

    /// Sets the failure policy.
    #[must_use]
    pub const fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }

    /// Sets the request id.
    #[must_use]
    pub fn with_request_id(mut self, request_id: RequestId) -> Self {
        self.request_id = Some(request_id);
        self
    }
}

/// Prints the size of the values only: they belong to the operator and are not validated yet.
impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            project_id,
            resource_id,
            blueprint_version_id,
            cloud_credential_id,
            parameters,
            on_failure,
            request_id,
        } = self;
        f.debug_struct("Declaration")
            .field("project_id", project_id)
            .field("resource_id", resource_id)
            .field("blueprint_version_id", blueprint_version_id)
            .field("cloud_credential_id", cloud_credential_id)
            .field("parameters", &format_args!("{} bytes", parameters.len()))
            .field("on_failure", on_failure)
            .field("request_id", request_id)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::declaration;

    #[test]
    fn debug_omits_parameter_values() {
        let text = format!("{:?}", declaration().with_parameters(r#"{"note":"canary"}"#));
        assert!(!text.contains("canary"), "{text}");
        assert!(text.contains("parameters: 17 bytes"), "{text}");
    }
}
