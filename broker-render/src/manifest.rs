//! The output of this crate: an object ready to apply, plain or sealed.

use std::fmt;

use broker_domain::{Error, ObjectReference};
use secrecy::zeroize::Zeroize as _;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::canonical::{self, Digest};
use crate::names::{Identity, NamespaceName};
use crate::scrub::scrub;
use crate::{applied, injection};

/// An object for the API server, without secrets.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    reference: ObjectReference,
    object: Map<String, Value>,
}

/// An object that contains a bootstrap token.
///
/// It cannot be printed, serialised or cloned. [`SealedManifest::expose_for_apply`] returns its bytes;
/// dropping it wipes the token.
///
/// ```compile_fail,E0277
/// # use broker_render::{Manifest, SealedManifest};
/// fn log(value: &impl std::fmt::Debug) {}
/// fn send(manifest: &SealedManifest) {
///     log(manifest);
/// }
/// ```
///
/// The counterpart that compiles takes an object without a secret:
///
/// ```
/// # use broker_render::{Manifest, SealedManifest};
/// fn log(value: &impl std::fmt::Debug) {}
/// fn send(manifest: &Manifest) {
///     log(manifest);
/// }
/// ```
///
/// It cannot be cloned:
///
/// ```compile_fail,E0277
/// # use broker_render::{Manifest, SealedManifest};
/// fn keep<T: Clone>(value: &T) {}
/// fn send(manifest: &SealedManifest) {
///     keep(manifest);
/// }
/// ```
///
/// ```
/// # use broker_render::{Manifest, SealedManifest};
/// fn keep<T: Clone>(value: &T) {}
/// fn send(manifest: &Manifest) {
///     keep(manifest);
/// }
/// ```
///
/// It cannot be serialised, but the bytes for the API server are available:
///
/// ```compile_fail,E0277
/// # use broker_render::SealedManifest;
/// fn body(manifest: &SealedManifest) -> Vec<u8> {
///     serde_json::to_vec(manifest).unwrap_or_default()
/// }
/// ```
///
/// ```
/// # use broker_render::SealedManifest;
/// fn body(manifest: &SealedManifest) -> Vec<u8> {
///     manifest.expose_for_apply()
/// }
/// ```
pub struct SealedManifest {
    manifest: Manifest,
    injected: Vec<SecretString>,
}

/// The condition under which an apply may change the cluster.
///
/// Every apply carries one, so that a delayed request cannot overwrite a state that its sender did not
/// observe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Precondition {
    /// The object does not exist. Sent as resource version 1: the apply creates the object or conflicts.
    Absent,
    /// The object is the observed one, unchanged since.
    Unchanged {
        /// The observed `metadata.uid`.
        uid: String,
        /// The observed `metadata.resourceVersion`.
        resource_version: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    ProjectNamespace,
    Cluster,
}

impl Manifest {
    pub(crate) fn new(
        api_version: &str,
        kind: &str,
        identity: &Identity,
        placement: Placement,
        spec: Map<String, Value>,
    ) -> Result<Self, Error> {
        let namespace = (placement == Placement::ProjectNamespace).then(|| identity.namespace());
        let name = identity.xr_name();
        Self::named(api_version, kind, name.as_str(), namespace.as_ref(), identity.labels(), spec)
    }

    /// An object that may have another name than a resource.
    pub(crate) fn named(
        api_version: &str,
        kind: &str,
        name: &str,
        namespace: Option<&NamespaceName>,
        labels: Map<String, Value>,
        spec: Map<String, Value>,
    ) -> Result<Self, Error> {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert("labels".to_owned(), Value::Object(labels));
        if let Some(namespace) = namespace {
            metadata.insert("namespace".to_owned(), json!(namespace.as_str()));
        }
        let namespace = namespace.map(NamespaceName::as_str);
        let reference = ObjectReference::new(api_version, kind, name, namespace)?;
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), json!(api_version));
        object.insert("kind".to_owned(), json!(kind));
        object.insert("metadata".to_owned(), Value::Object(metadata));
        object.insert("spec".to_owned(), Value::Object(spec));
        Ok(Self { reference, object })
    }

    /// The complete name of the object.
    pub const fn reference(&self) -> &ObjectReference {
        &self.reference
    }

    /// The object as JSON.
    pub const fn as_object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// Canonical JSON, byte-identical for equal input.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::object_text(&self.object).into_bytes()
    }

    /// The digest of the fields that the broker owns after an apply, without the injection site. Equals
    /// [`crate::owned_digest`] of a live object if and only if re-applying is a no-op.
    pub fn digest(&self) -> Digest {
        applied::desired_digest(self)
    }

    /// Adds a precondition.
    #[must_use]
    pub fn with_precondition(mut self, precondition: &Precondition) -> Self {
        self.set_precondition(precondition);
        self
    }

    fn set_precondition(&mut self, precondition: &Precondition) {
        let Some(Value::Object(metadata)) = self.object.get_mut("metadata") else { return };
        match precondition {
            Precondition::Absent => {
                metadata.insert("resourceVersion".to_owned(), json!("1"));
            }
            Precondition::Unchanged { uid, resource_version } => {
                metadata.insert("uid".to_owned(), json!(uid));
                metadata.insert("resourceVersion".to_owned(), json!(resource_version));
            }
        }
    }

    pub(crate) fn with_annotations<const N: usize>(
        mut self,
        annotations: [(&str, String); N],
    ) -> Self {
        if let Some(Value::Object(metadata)) = self.object.get_mut("metadata") {
            let annotations: Map<_, _> = annotations
                .into_iter()
                .map(|(key, value)| (key.to_owned(), json!(value)))
                .collect();
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
        self
    }

    pub(crate) fn spec(&self) -> &Value {
        self.object.get("spec").unwrap_or(&Value::Null)
    }

    pub(crate) fn spec_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.object.get_mut("spec").and_then(Value::as_object_mut)
    }
}

/// Prints the object's name only: the values belong to the operator.
impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({})", self.reference)
    }
}

impl SealedManifest {
    pub(crate) const fn new(manifest: Manifest, injected: Vec<SecretString>) -> Self {
        Self { manifest, injected }
    }

    /// The complete name of the object.
    pub const fn reference(&self) -> &ObjectReference {
        &self.manifest.reference
    }

    /// Adds a precondition.
    #[must_use]
    pub fn with_precondition(mut self, precondition: &Precondition) -> Self {
        self.manifest.set_precondition(precondition);
        self
    }

    /// The request body, secret included.
    pub fn expose_for_apply(&self) -> Vec<u8> {
        self.manifest.to_bytes()
    }

    /// Scrubs the injected values from a response of the API server and shortens it. Every such message must pass
    /// through this method before it enters an error, a row, an event or a log.
    pub fn scrub(&self, message: &str) -> String {
        let injected: Vec<_> = self.injected.iter().map(ExposeSecret::expose_secret).collect();
        scrub(message, &injected)
    }
}

impl Drop for SealedManifest {
    fn drop(&mut self) {
        for value in self.manifest.spec_mut().into_iter().flat_map(injection::injected_values_mut) {
            if let Value::String(secret) = value {
                secret.zeroize();
            }
        }
    }
}
