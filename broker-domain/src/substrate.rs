//! What stands on the cluster on behalf of a resource: remembered until it is proven gone.

mod reference;
mod xr_uid;

use std::collections::BTreeSet;
use std::fmt;

pub use reference::{ObjectReference, PLAIN_DATA};
pub use xr_uid::XrUid;

use crate::error::Error;

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

/// Everything that was ever seen of a resource on the cluster and has not been proven gone, and the name of its
/// ProviderConfig.
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
    applied: Option<XrUid>,
}

impl Substrate {
    /// What a row kept.
    ///
    /// ```
    /// use std::collections::BTreeSet;
    ///
    /// use broker_domain::{ClusterId, Substrate};
    ///
    /// let kept = Substrate::hydrate(Some(ClusterId::new("uid")?), None, BTreeSet::new(), None, None)?;
    /// assert!(kept.is_clear());
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when objects are named but the cluster that they stand on is not.
    pub fn hydrate(
        cluster: Option<ClusterId>,
        provider_config: Option<ObjectReference>,
        composed: BTreeSet<ObjectReference>,
        references_digest: Option<ReferencesDigest>,
        applied: Option<XrUid>,
    ) -> Result<Self, Error> {
        let substrate = Self { cluster, provider_config, composed, references_digest, applied };
        substrate.check()?;
        Ok(substrate)
    }

    /// Objects stand somewhere.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let nothing_recorded = self.composed.is_empty()
            && self.provider_config.is_none()
            && self.references_digest.is_none()
            && self.applied.is_none();
        if self.cluster.is_none() && !nothing_recorded {
            return Err(Error::invalid(
                "cluster_id",
                "is missing although objects are on record; they stand on some cluster",
            ));
        }
        Ok(())
    }

    /// No composed object is on record whose absence has to be read.
    pub fn is_clear(&self) -> bool {
        self.composed.iter().all(ObjectReference::is_plain_data)
    }

    /// The plain data on record: composed, never read, and not proven gone by a foreground deletion.
    pub fn plain_data(&self) -> impl Iterator<Item = &ObjectReference> {
        self.composed.iter().filter(|reference| reference.is_plain_data())
    }

    /// Without plain data: a composite resource that goes in the foreground goes after it.
    ///
    /// ```
    /// use broker_domain::{ObjectReference, Substrate};
    ///
    /// let secret = ObjectReference::new("v1", "Secret", "connection", Some("team-a"))?;
    /// let known = Substrate::default().found([secret]);
    /// assert_eq!(known.plain_data().count(), 1);
    /// assert_eq!(known.without_plain_data().composed().len(), 0);
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn without_plain_data(mut self) -> Self {
        self.composed.retain(|reference| !reference.is_plain_data());
        self
    }

    /// The cluster that everything stands on, once something was about to be applied.
    pub const fn cluster(&self) -> Option<&ClusterId> {
        self.cluster.as_ref()
    }

    /// The name of the resource's own ProviderConfig, once one was about to be applied. It stays on record for
    /// good: without it, one that a cut-off worker applies late could not be found.
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

    /// The composite resource that was last about to be armed, or seen armed. It stays on record when the object is
    /// lost, so that a re-creation is told from a first creation.
    pub const fn applied(&self) -> Option<&XrUid> {
        self.applied.as_ref()
    }

    /// With the cluster and the ProviderConfig that are about to be used: recorded before the first
    /// apply, so that whatever that apply leaves behind is known.
    ///
    /// ```
    /// use broker_domain::{ClusterId, ObjectReference, Substrate};
    ///
    /// let config = ObjectReference::new("x.crossplane.io/v1beta1", "ProviderConfig", "pr-1", Some("team-a"))?;
    /// let known = Substrate::default().about_to_apply(ClusterId::new("uid")?, config.clone());
    /// assert_eq!(known.provider_config(), Some(&config));
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn about_to_apply(mut self, cluster: ClusterId, provider_config: ObjectReference) -> Self {
        self.cluster = Some(cluster);
        self.provider_config = Some(provider_config);
        self
    }

    /// With the cluster that its objects were seen on, if none is on record.
    ///
    /// ```
    /// use broker_domain::{ClusterId, Substrate};
    ///
    /// let seen = Substrate::default().on_cluster(ClusterId::new("uid")?);
    /// assert_eq!(seen.cluster().unwrap().as_str(), "uid");
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster.get_or_insert(cluster);
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

    /// The composite resource of this uid stands armed, or is about to be.
    #[must_use]
    pub fn armed(mut self, uid: XrUid) -> Self {
        self.applied = Some(uid);
        self
    }

    /// With composed objects that were found without the composite resource that composed them: by their
    /// label. They say nothing about its references, so the digest stays.
    ///
    /// ```
    /// use broker_domain::{ObjectReference, Substrate};
    ///
    /// let left = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "vm", Some("team-a"))?;
    /// let known = Substrate::default().found([left]);
    /// assert!(!known.is_clear() && known.references_digest().is_none());
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn found(mut self, composed: impl IntoIterator<Item = ObjectReference>) -> Self {
        self.composed.extend(composed);
        self
    }

    /// Without the composed objects that are proven gone.
    #[must_use]
    pub fn without(mut self, gone: &BTreeSet<ObjectReference>) -> Self {
        self.composed.retain(|reference| !gone.contains(reference));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::composed;

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
        let left = seen.without(&[composed("b"), config.clone()].into());
        assert_eq!(left.composed(), &[composed("a"), composed("c"), composed("d")].into());
        assert_eq!(left.provider_config(), Some(&config), "its name is kept for good");
        assert!(left.cluster().is_some(), "the cluster is remembered for what is left");
    }

    #[test]
    fn objects_without_their_cluster_are_a_drifted_row() {
        let digest = Some(ReferencesDigest::new([1; 32]));
        let uid = Some(XrUid::new("uid").unwrap());
        for (config, objects, digest, applied) in [
            (Some(composed("config")), BTreeSet::new(), None, None),
            (None, [composed("a")].into(), None, None),
            (None, BTreeSet::new(), digest, None),
            (None, BTreeSet::new(), None, uid),
        ] {
            let error = Substrate::hydrate(None, config, objects, digest, applied).unwrap_err();
            assert!(error.to_string().starts_with("cluster_id: is missing"), "{error}");
        }
    }
}
