//! What stands on the cluster on behalf of a resource: remembered until it is proven gone.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::Error;

/// An object on a Kubernetes cluster, named completely.
///
/// ```
/// use broker_domain::ObjectReference;
///
/// let server = ObjectReference::new("hcloud.crossplane.io/v1", "Server", "web-x7f", Some("team-a"))?;
/// assert_eq!(server.to_string(), "Server web-x7f in team-a (hcloud.crossplane.io/v1)");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectReference {
    api_version: String,
    kind: String,
    name: String,
    namespace: Option<String>,
}

impl ObjectReference {
    /// A reference; without a namespace the object is cluster-scoped.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when a part is empty.
    pub fn new(
        api_version: impl Into<String>,
        kind: impl Into<String>,
        name: impl Into<String>,
        namespace: Option<&str>,
    ) -> Result<Self, Error> {
        let reference = Self {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(str::to_owned),
        };
        let parts = [
            ("apiVersion", Some(&reference.api_version)),
            ("kind", Some(&reference.kind)),
            ("name", Some(&reference.name)),
            ("namespace", reference.namespace.as_ref()),
        ];
        for (part, text) in parts {
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err(Error::invalid(
                    format!("substrate.{part}"),
                    "is empty; an object is named completely",
                ));
            }
        }
        Ok(reference)
    }

    /// Group and version, as manifests spell them.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        write!(f, " ({})", self.api_version)
    }
}

/// The cluster that a resource's objects stand on: the uid of its `kube-system` namespace.
///
/// Absence on another cluster proves nothing, so it is recorded before the first object is applied.
///
/// ```
/// use broker_domain::ClusterId;
///
/// let cluster = ClusterId::new("e3f5a1c2-0d4b-4c57-9f6e-1b2a3c4d5e6f")?;
/// assert_eq!(cluster.as_str(), "e3f5a1c2-0d4b-4c57-9f6e-1b2a3c4d5e6f");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

impl ClusterId {
    /// Takes a uid as the API server spells it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is empty, longer than 128 bytes or not visible ASCII.
    pub fn new(uid: impl Into<String>) -> Result<Self, Error> {
        let uid = uid.into();
        if uid.is_empty() || uid.len() > 128 || !uid.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Error::invalid(
                "cluster_id",
                "is not a uid; use 1 to 128 visible ASCII characters",
            ));
        }
        Ok(Self(uid))
    }

    /// The uid.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A digest over a set of composed references, so that a sweep can compare sets without carrying them.
///
/// ```
/// use broker_domain::ReferencesDigest;
///
/// let digest = ReferencesDigest::new([0xab; 32]);
/// assert_eq!(format!("{digest:?}"), "ReferencesDigest(abababab…)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferencesDigest([u8; 32]);

impl ReferencesDigest {
    /// Takes the 32 bytes that the render crate computed.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ReferencesDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReferencesDigest(")?;
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…)")
    }
}

/// Everything that was ever seen of a resource on the cluster and has not been proven gone.
///
/// Merged and never replaced: a composite resource that was created anew composes new objects, while
/// those of its predecessor may still live.
///
/// ```
/// use broker_domain::{ObjectReference, ReferencesDigest, Substrate};
///
/// let old = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "a", Some("team-a"))?;
/// let new = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "b", Some("team-a"))?;
///
/// let seen = Substrate::default().observed([old.clone()], ReferencesDigest::new([1; 32]));
/// let seen = seen.observed([new.clone()], ReferencesDigest::new([2; 32]));
/// assert_eq!(seen.composed().len(), 2, "the old one may still live");
///
/// let seen = seen.without(&[old].into());
/// assert_eq!(seen.composed(), &[new].into());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Substrate {
    cluster: Option<ClusterId>,
    provider_config: Option<ObjectReference>,
    composed: BTreeSet<ObjectReference>,
    references_digest: Option<ReferencesDigest>,
}

impl Substrate {
    /// What a row kept.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when objects are named but the cluster that they stand on is not.
    pub fn hydrate(
        cluster: Option<ClusterId>,
        provider_config: Option<ObjectReference>,
        composed: BTreeSet<ObjectReference>,
        references_digest: Option<ReferencesDigest>,
    ) -> Result<Self, Error> {
        if cluster.is_none() && provider_config.is_some() {
            return Err(Error::invalid(
                "cluster_id",
                "is missing although a ProviderConfig is recorded; both are recorded together",
            ));
        }
        Ok(Self { cluster, provider_config, composed, references_digest })
    }

    /// The cluster that everything stands on, once something was about to be applied.
    pub const fn cluster(&self) -> Option<&ClusterId> {
        self.cluster.as_ref()
    }

    /// The resource's own ProviderConfig.
    pub const fn provider_config(&self) -> Option<&ObjectReference> {
        self.provider_config.as_ref()
    }

    /// Every composed object ever seen and not proven gone.
    pub const fn composed(&self) -> &BTreeSet<ObjectReference> {
        &self.composed
    }

    /// The digest over the composed references of the last observation, and nothing older.
    pub const fn references_digest(&self) -> Option<&ReferencesDigest> {
        self.references_digest.as_ref()
    }

    /// With the cluster and the ProviderConfig that are about to be used: recorded before the first
    /// apply, so that whatever that apply leaves behind is known.
    #[must_use]
    pub fn about_to_apply(mut self, cluster: ClusterId, provider_config: ObjectReference) -> Self {
        self.cluster = Some(cluster);
        self.provider_config = Some(provider_config);
        self
    }

    /// With the composed objects of one observation added.
    #[must_use]
    pub fn observed(
        mut self,
        composed: impl IntoIterator<Item = ObjectReference>,
        digest: ReferencesDigest,
    ) -> Self {
        self.composed.extend(composed);
        self.references_digest = Some(digest);
        self
    }

    /// With composed objects that were found without the composite resource that composed them: by their
    /// label. They say nothing about its references, so the digest stays.
    #[must_use]
    pub fn found(mut self, composed: impl IntoIterator<Item = ObjectReference>) -> Self {
        self.composed.extend(composed);
        self
    }

    /// Without the objects that a direct read found gone.
    #[must_use]
    pub fn without(mut self, gone: &BTreeSet<ObjectReference>) -> Self {
        self.composed.retain(|reference| !gone.contains(reference));
        if self.provider_config.as_ref().is_some_and(|reference| gone.contains(reference)) {
            self.provider_config = None;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::composed;

    #[test]
    fn an_object_is_named_completely() {
        for (api_version, kind, name, namespace, part) in [
            ("", "Server", "a", None, "apiVersion"),
            ("v1", " ", "a", None, "kind"),
            ("v1", "Server", "", None, "name"),
            ("v1", "Server", "a", Some(""), "namespace"),
        ] {
            let error = ObjectReference::new(api_version, kind, name, namespace).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("substrate.{part}: is empty; an object is named completely")
            );
        }
    }

    #[test]
    fn a_cluster_is_named_by_a_uid() {
        assert!(ClusterId::new("4c1d…").is_err());
        assert!(ClusterId::new("").is_err());
        assert!(ClusterId::new("x".repeat(129)).is_err());
        assert!(ClusterId::new("e3f5a1c2-0d4b-4c57-9f6e-1b2a3c4d5e6f").is_ok());
    }

    /// Invariant: what was seen is forgotten only when a direct read found it gone.
    #[test]
    fn substrate_is_merged_never_replaced() {
        let cluster = ClusterId::new("uid").unwrap();
        let config = composed("config");
        let seen = Substrate::default()
            .about_to_apply(cluster.clone(), config.clone())
            .observed([composed("a"), composed("b")], ReferencesDigest::new([1; 32]))
            .observed([composed("c")], ReferencesDigest::new([2; 32]))
            .about_to_apply(cluster, config.clone());
        assert_eq!(seen.composed(), &[composed("a"), composed("b"), composed("c")].into());
        assert_eq!(seen.references_digest(), Some(&ReferencesDigest::new([2; 32])));

        let seen = seen.found([composed("d")]);
        assert_eq!(seen.references_digest(), Some(&ReferencesDigest::new([2; 32])));
        let left = seen.without(&[composed("b"), config].into());
        assert_eq!(left.composed(), &[composed("a"), composed("c"), composed("d")].into());
        assert_eq!(left.provider_config(), None);
        assert!(left.cluster().is_some(), "the cluster is remembered for what is left");
    }

    #[test]
    fn a_provider_config_without_its_cluster_is_a_drifted_row() {
        let error =
            Substrate::hydrate(None, Some(composed("config")), BTreeSet::new(), None).unwrap_err();
        assert!(error.to_string().starts_with("cluster_id: is missing"), "{error}");
    }
}
