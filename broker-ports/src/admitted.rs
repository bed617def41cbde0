//! Declare: a validated declaration that is not stored yet.

use std::collections::BTreeMap;
use std::fmt;

use broker_domain::{
    Change, ClusterId, Declaration, Error, MeshRole, ProvisionedResource, ProvisionedResourceId,
    RequestId, Stamp,
};
use broker_render::ValidParameters;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::audit::{AuditAction, AuditEntry};
use crate::context::Attribution;
use crate::repository::SharedConfigRef;

/// A declaration that may be stored: the new aggregate with its event, and the request that it came from.
///
/// Admission resolves everything and stores none of it, so an embedder can store the result in its own transaction.
///
/// The constructor takes [`ValidParameters`], which only a blueprint's schema returns. So unvalidated parameters cannot
/// reach [`Repository::create`](crate::Repository::create):
///
/// ```compile_fail,E0308
/// # use broker_domain::{Declaration, Error, MeshRole, Parameters, ProvisionedResourceId, Stamp};
/// # use broker_ports::{Admitted, Attribution};
/// fn admit(
///     id: ProvisionedResourceId, declaration: &Declaration, stamp: Stamp, attribution: Attribution,
/// ) -> Result<Admitted, Error> {
///     let unvalidated = Parameters::from_canonical_json(declaration.parameters.clone())?;
///     Admitted::new(id, declaration, MeshRole::Node, unvalidated, stamp, attribution)
/// }
/// ```
///
/// The variant that compiles:
///
/// ```
/// # use broker_domain::{Declaration, Error, MeshRole, ProvisionedResourceId, Stamp};
/// # use broker_ports::{Admitted, Attribution};
/// # use broker_render::ParameterSchema;
/// fn admit(
///     id: ProvisionedResourceId, declaration: &Declaration, stamp: Stamp, attribution: Attribution,
///     schema: &ParameterSchema,
/// ) -> Result<Admitted, Error> {
///     let valid = schema.validate(&declaration.parameters)?;
///     Admitted::new(id, declaration, MeshRole::Node, valid, stamp, attribution)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    change: Change,
    request: Option<(RequestId, RequestHash)>,
    attribution: Attribution,
    shared_config: Option<SharedConfigRef>,
}

/// A digest of a declaration as the caller sent it, before defaults. A retry has the same digest, whatever the key
/// order or spacing of its parameters.
///
/// ```
/// use broker_domain::*;
/// use broker_ports::RequestHash;
/// use uuid::Uuid;
///
/// let declaration = Declaration::new(
///     ProjectId::new(Uuid::from_u128(1))?,
///     ResourceId::new(Uuid::from_u128(2))?,
///     BlueprintVersionId::new(Uuid::from_u128(3))?,
///     CloudCredentialId::new(Uuid::from_u128(4))?,
/// );
/// let first = declaration.clone().with_parameters(r#"{"a": 1, "b": 2}"#);
/// let retry = declaration.clone().with_parameters(r#"{"b":2,"a":1}"#);
/// assert_eq!(RequestHash::of(&first), RequestHash::of(&retry));
/// assert_ne!(RequestHash::of(&first), RequestHash::of(&declaration));
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestHash([u8; 32]);

impl Admitted {
    /// A new resource from a declaration whose parameters the blueprint's schema accepted.
    ///
    /// # Errors
    ///
    /// As [`ProvisionedResource::new`].
    pub fn new(
        id: ProvisionedResourceId,
        declaration: &Declaration,
        mesh_role: MeshRole,
        parameters: ValidParameters,
        stamp: Stamp,
        attribution: Attribution,
    ) -> Result<Self, Error> {
        let change =
            ProvisionedResource::new(id, declaration, mesh_role, parameters.into(), stamp)?;
        let hash = RequestHash::of(declaration);
        let request = declaration.request_id.clone().map(|id| (id, hash));
        Ok(Self { change, request, attribution, shared_config: None })
    }

    /// Registers the resource as a user of a shared ProviderConfig.
    #[must_use]
    pub fn using(mut self, shared_config: SharedConfigRef) -> Self {
        self.shared_config = Some(shared_config);
        self
    }

    /// The shared ProviderConfig that the resource will use.
    pub const fn shared_config(&self) -> Option<&SharedConfigRef> {
        self.shared_config.as_ref()
    }

    /// Binds the resource to the cluster of its Project. Replicas of other clusters never claim it.
    #[must_use]
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.change = self.change.on_cluster(cluster);
        self
    }

    /// The new aggregate with its event.
    pub const fn change(&self) -> &Change {
        &self.change
    }

    /// The caller's request id and the digest of the declaration.
    pub const fn request(&self) -> Option<&(RequestId, RequestHash)> {
        self.request.as_ref()
    }

    /// The actor and request of the declaration.
    pub const fn attribution(&self) -> &Attribution {
        &self.attribution
    }

    /// The audit line that the store writes with the resource.
    pub fn audit(&self) -> AuditEntry {
        let resource = self.change.resource();
        let mut entry = AuditEntry::new(AuditAction::Declared, self.attribution.clone())
            .in_project(resource.project_id())
            .for_resource(resource.id());
        entry.new_phase = Some(resource.phase());
        entry
    }
}

impl RequestHash {
    /// The digest of a declaration.
    pub fn of(declaration: &Declaration) -> Self {
        let parameters = serde_json::from_str::<Value>(&declaration.parameters)
            .map_or_else(|_| declaration.parameters.clone(), |value| sort_keys(value).to_string());
        let mut hasher = Sha256::new();
        // A format version, then fixed-width fields, a zero-terminated word, and the variable part. So two
        // different declarations never give the same bytes.
        hasher.update([1]);
        hasher.update(declaration.project_id.as_uuid());
        hasher.update(declaration.resource_id.as_uuid());
        hasher.update(declaration.blueprint_version_id.as_uuid());
        hasher.update(declaration.cloud_credential_id.as_uuid());
        hasher.update(declaration.on_failure.as_str());
        hasher.update([0]);
        hasher.update(parameters);
        Self(hasher.finalize().into())
    }

    /// Wraps stored bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Sorts the keys at every depth. A host may enable `serde_json/preserve_order`; without sorting, a retry could then
/// become a conflict.
fn sort_keys(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> =
                fields.into_iter().map(|(key, value)| (key, sort_keys(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sort_keys).collect()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

impl fmt::Debug for RequestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestHash(")?;
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…)")
    }
}

#[cfg(test)]
mod tests {
    use broker_domain::{BlueprintVersionId, CloudCredentialId, ProjectId, ResourceId};
    use uuid::Uuid;

    use super::*;

    /// This also holds with `--features serde_json/preserve_order`.
    #[test]
    fn key_order_does_not_change_the_request_hash() {
        let id = Uuid::from_u128(1);
        let declaration = Declaration::new(
            ProjectId::new(id).unwrap(),
            ResourceId::new(id).unwrap(),
            BlueprintVersionId::new(id).unwrap(),
            CloudCredentialId::new(id).unwrap(),
        );
        let hash =
            |parameters: &str| RequestHash::of(&declaration.clone().with_parameters(parameters));
        let hashed = hash(r#"{"a": [{"x": 1, "y": {"p": 1, "q": 2}}, 2], "b": null}"#);
        assert_eq!(hashed, hash(r#"{"b":null,"a":[{"y":{"q":2,"p":1},"x":1},2]}"#));
        assert_ne!(
            hashed,
            hash(r#"{"b":null,"a":[2,{"y":{"q":2,"p":1},"x":1}]}"#),
            "the order of a list counts"
        );
    }
}
