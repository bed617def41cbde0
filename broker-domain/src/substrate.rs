//! The record of a resource's objects on the cluster, kept until they are proven gone.

mod reference;
mod xr_uid;

use std::collections::BTreeSet;
use std::fmt;

pub use reference::{ObjectReference, PLAIN_DATA};
pub use xr_uid::XrUid;

use crate::error::Error;

/// The cluster that holds a resource's objects: the uid of its `kube-system` namespace.
///
/// Recorded before the first apply, because absence on another cluster proves nothing.
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
    /// Accepts a uid as the API server spells it.
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

/// A digest of a set of composed references, so that a sweep compares sets cheaply.
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
    /// Accepts the 32 bytes that the render crate computed.
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

/// Every object ever observed and not proven gone, and the name of the ProviderConfig.
///
/// Merged, never replaced: a re-created composite resource composes new objects while its predecessor's may
/// still exist.
///
/// ```
/// use broker_domain::{ObjectReference, ReferencesDigest, Substrate};
///
/// let old = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "a", Some("team-a"))?;
/// let new = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "b", Some("team-a"))?;
///
/// let substrate = Substrate::default().observed([old.clone()], ReferencesDigest::new([1; 32]));
/// let substrate = substrate.observed([new.clone()], ReferencesDigest::new([2; 32]));
/// assert_eq!(substrate.composed().len(), 2, "the old one may still exist");
///
/// let substrate = substrate.without(&[old].into());
/// assert_eq!(substrate.composed(), &[new].into());
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
    /// Builds the record from a stored row.
    ///
    /// ```
    /// use std::collections::BTreeSet;
    ///
    /// use broker_domain::{ClusterId, Substrate};
    ///
    /// let substrate = Substrate::hydrate(Some(ClusterId::new("uid")?), None, BTreeSet::new(), None, None)?;
    /// assert!(substrate.is_clear());
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when objects are recorded without their cluster.
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

    pub(crate) fn check(&self) -> Result<(), Error> {
        let nothing_recorded = self.composed.is_empty()
            && self.provider_config.is_none()
            && self.references_digest.is_none()
            && self.applied.is_none();
        if self.cluster.is_none() && !nothing_recorded {
            return Err(Error::invalid(
                "cluster_id",
                "is missing although objects are on record; name their cluster",
            ));
        }
        Ok(())
    }

    /// Whether no composed object on record needs a proof of absence.
    pub fn is_clear(&self) -> bool {
        self.composed.iter().all(ObjectReference::is_plain_data)
    }

    /// The plain data on record: composed, never read, and not covered by a proven foreground deletion.
    pub fn plain_data(&self) -> impl Iterator<Item = &ObjectReference> {
        self.composed.iter().filter(|reference| reference.is_plain_data())
    }

    /// Removes plain data: a foreground deletion of the composite resource removes it first.
    ///
    /// ```
    /// use broker_domain::{ObjectReference, Substrate};
    ///
    /// let secret = ObjectReference::new("v1", "Secret", "connection", Some("team-a"))?;
    /// let substrate = Substrate::default().with_labelled([secret]);
    /// assert_eq!(substrate.plain_data().count(), 1);
    /// assert_eq!(substrate.without_plain_data().composed().len(), 0);
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn without_plain_data(mut self) -> Self {
        self.composed.retain(|reference| !reference.is_plain_data());
        self
    }

    /// The cluster of all objects; recorded before the first apply.
    pub const fn cluster(&self) -> Option<&ClusterId> {
        self.cluster.as_ref()
    }

    /// The name of the resource's own ProviderConfig; recorded before the first apply and never removed. It
    /// locates a ProviderConfig that a fenced-off worker applies late.
    pub const fn provider_config(&self) -> Option<&ObjectReference> {
        self.provider_config.as_ref()
    }

    /// Every composed object observed and not proven gone.
    pub const fn composed(&self) -> &BTreeSet<ObjectReference> {
        &self.composed
    }

    /// The digest of the composed references in the latest observation only.
    pub const fn references_digest(&self) -> Option<&ReferencesDigest> {
        self.references_digest.as_ref()
    }

    /// The composite resource that was last armed, or about to be. Stays on record after a loss, to
    /// distinguish a re-creation from a first creation.
    pub const fn applied(&self) -> Option<&XrUid> {
        self.applied.as_ref()
    }

    /// Records the cluster and the ProviderConfig before the first apply, so that every object of that
    /// apply is on record.
    ///
    /// ```
    /// use broker_domain::{ClusterId, ObjectReference, Substrate};
    ///
    /// let config = ObjectReference::new("x.crossplane.io/v1beta1", "ProviderConfig", "pr-1", Some("team-a"))?;
    /// let substrate = Substrate::default().about_to_apply(ClusterId::new("uid")?, config.clone());
    /// assert_eq!(substrate.provider_config(), Some(&config));
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn about_to_apply(mut self, cluster: ClusterId, provider_config: ObjectReference) -> Self {
        self.cluster = Some(cluster);
        self.provider_config = Some(provider_config);
        self
    }

    /// Records the cluster where objects were observed, unless one is on record.
    ///
    /// ```
    /// use broker_domain::{ClusterId, Substrate};
    ///
    /// let substrate = Substrate::default().on_cluster(ClusterId::new("uid")?);
    /// assert_eq!(substrate.cluster().unwrap().as_str(), "uid");
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster.get_or_insert(cluster);
        self
    }

    /// Adds the composed objects of one observation.
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

    /// Records the uid of a composite resource that is armed or about to be.
    #[must_use]
    pub fn armed(mut self, uid: XrUid) -> Self {
        self.applied = Some(uid);
        self
    }

    /// Adds composed objects found by label, without their composite resource. The digest stays, because
    /// labels do not show the references.
    ///
    /// ```
    /// use broker_domain::{ObjectReference, Substrate};
    ///
    /// let object = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "vm", Some("team-a"))?;
    /// let substrate = Substrate::default().with_labelled([object]);
    /// assert!(!substrate.is_clear() && substrate.references_digest().is_none());
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    #[must_use]
    pub fn with_labelled(mut self, composed: impl IntoIterator<Item = ObjectReference>) -> Self {
        self.composed.extend(composed);
        self
    }

    /// Removes the composed objects that are proven gone.
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
    fn cluster_id_accepts_only_uids() {
        assert!(ClusterId::new("4c1d…").is_err());
        assert!(ClusterId::new("").is_err());
        assert!(ClusterId::new("x".repeat(129)).is_err());
        assert!(ClusterId::new("e3f5a1c2-0d4b-4c57-9f6e-1b2a3c4d5e6f").is_ok());
    }

    /// Invariant: an object leaves the record only when a direct read found it gone.
    #[test]
    fn substrate_is_merged_never_replaced() {
        let cluster = ClusterId::new("uid").unwrap();
        let config = composed("config");
        let substrate = Substrate::default()
            .about_to_apply(cluster.clone(), config.clone())
            .observed([composed("a"), composed("b")], ReferencesDigest::new([1; 32]))
            .observed([composed("c")], ReferencesDigest::new([2; 32]))
            .about_to_apply(cluster, config.clone());
        assert_eq!(substrate.composed(), &[composed("a"), composed("b"), composed("c")].into());
        assert_eq!(substrate.references_digest(), Some(&ReferencesDigest::new([2; 32])));

        let substrate = substrate.with_labelled([composed("d")]);
        assert_eq!(substrate.references_digest(), Some(&ReferencesDigest::new([2; 32])));
        let remaining = substrate.without(&[composed("b"), config.clone()].into());
        assert_eq!(remaining.composed(), &[composed("a"), composed("c"), composed("d")].into());
        assert_eq!(remaining.provider_config(), Some(&config), "the name stays on record");
        assert!(remaining.cluster().is_some(), "the cluster stays on record");
    }

    #[test]
    fn objects_without_cluster_are_rejected() {
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
