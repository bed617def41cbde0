//! What leaves this crate: an object ready to be applied, in the open or sealed.

use std::fmt;

use broker_domain::{Error, ObjectReference};
use secrecy::zeroize::Zeroize as _;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::canonical::{self, Digest};
use crate::names::{Identity, NamespaceName};
use crate::scrub::scrub;
use crate::{applied, injection};

/// An object for the API server, without anything secret in it.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    reference: ObjectReference,
    object: Map<String, Value>,
}

/// An object with a bootstrap token in it.
///
/// It can be neither printed, serialised nor cloned; its bytes leave through
/// [`SealedManifest::expose_for_apply`], and are wiped when it is dropped.
///
/// ```compile_fail,E0277
/// # use broker_render::{Manifest, SealedManifest};
/// fn log(value: &impl std::fmt::Debug) {}
/// fn send(manifest: &SealedManifest) {
///     log(manifest);
/// }
/// ```
///
/// The twin that does compile takes what holds no secret:
///
/// ```
/// # use broker_render::{Manifest, SealedManifest};
/// fn log(value: &impl std::fmt::Debug) {}
/// fn send(manifest: &Manifest) {
///     log(manifest);
/// }
/// ```
///
/// No copy survives it:
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
/// And no serialiser takes it, while the bytes that are meant for the API server are within reach:
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

/// What has to hold on the cluster for an apply to change anything.
///
/// Every apply carries one, so that a request which was delayed on its way can never land on something
/// that its sender did not see.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Precondition {
    /// The name is free. An apply with resource version 1 creates, and is a conflict otherwise.
    Absent,
    /// The object is the one that was observed, and unchanged since.
    Unchanged {
        /// The observed `metadata.uid`.
        uid: String,
        /// The observed `metadata.resourceVersion`.
        resource_version: String,
    },
}

/// Where an object stands.
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
        let name = identity.xr_name();
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(name.as_str()));
        metadata.insert("labels".to_owned(), Value::Object(identity.labels()));
        let namespace = (placement == Placement::ProjectNamespace).then(|| identity.namespace());
        if let Some(namespace) = &namespace {
            metadata.insert("namespace".to_owned(), json!(namespace.as_str()));
        }
        let namespace = namespace.as_ref().map(NamespaceName::as_str);
        let reference = ObjectReference::new(api_version, kind, name.as_str(), namespace)?;
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), json!(api_version));
        object.insert("kind".to_owned(), json!(kind));
        object.insert("metadata".to_owned(), Value::Object(metadata));
        object.insert("spec".to_owned(), Value::Object(spec));
        Ok(Self { reference, object })
    }

    /// Which object it is.
    pub const fn reference(&self) -> &ObjectReference {
        &self.reference
    }

    /// The object.
    pub const fn as_object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// Its bytes: canonical JSON, equal for equal input.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::object_text(&self.object).into_bytes()
    }

    /// The digest over the fields that we would own once it is applied, without the injection site. Equal
    /// to [`crate::owned_digest`] of a live object exactly when applying it again would change nothing.
    pub fn digest(&self) -> Digest {
        applied::desired_digest(self)
    }

    /// With a precondition.
    #[must_use]
    pub fn with_precondition(mut self, precondition: &Precondition) -> Self {
        self.require(precondition);
        self
    }

    fn require(&mut self, precondition: &Precondition) {
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

/// Values belong to the operator; a log line gets the object's name.
impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({})", self.reference)
    }
}

impl SealedManifest {
    pub(crate) const fn new(manifest: Manifest, injected: Vec<SecretString>) -> Self {
        Self { manifest, injected }
    }

    /// Which object it is.
    pub const fn reference(&self) -> &ObjectReference {
        &self.manifest.reference
    }

    /// With a precondition.
    #[must_use]
    pub fn with_precondition(mut self, precondition: &Precondition) -> Self {
        self.manifest.require(precondition);
        self
    }

    /// The bytes of the request body, secret included.
    pub fn expose_for_apply(&self) -> Vec<u8> {
        self.manifest.to_bytes()
    }

    /// What an API server answered to it, without the injected values and cut to size. Every message has
    /// to pass through here before it reaches an error, a row, an event or a log.
    pub fn scrub(&self, message: &str) -> String {
        let injected: Vec<_> = self.injected.iter().map(ExposeSecret::expose_secret).collect();
        scrub(message, &injected)
    }
}

impl Drop for SealedManifest {
    fn drop(&mut self) {
        for leaf in self.manifest.spec_mut().into_iter().flat_map(injection::leaves_mut) {
            if let Value::String(secret) = leaf {
                secret.zeroize();
            }
        }
    }
}
