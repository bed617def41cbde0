//! Observe: objects read from the cluster. Facts are plain data; the object itself is only reachable through `expose`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use broker_domain::{ClusterId, ObjectReference, Phase, ReferencesDigest};
use broker_render::{Armed, Digest, references_digest};
use serde_json::Value;

use super::write::ObjectVersion;

/// An object as the cluster returned it. It may hold an injected token, so it cannot be printed, serialised or cloned.
///
/// ```compile_fail,E0277
/// # use broker_ports::LiveObject;
/// fn copies<T: Clone>() {}
/// copies::<LiveObject>();
/// ```
///
/// ```compile_fail,E0277
/// # use broker_ports::LiveObject;
/// fn send(object: &LiveObject) -> Option<String> {
///     serde_json::to_string(object).ok()
/// }
/// ```
///
/// The variants that compile:
///
/// ```
/// # use broker_ports::LiveObject;
/// fn copies<T: Send>() {}
/// copies::<LiveObject>();
/// ```
///
/// ```
/// # use broker_ports::LiveObject;
/// fn send(object: &LiveObject) -> Option<String> {
///     serde_json::to_string(&object.version().uid).ok()
/// }
/// ```
pub struct LiveObject {
    version: ObjectVersion,
    json: Value,
}

impl LiveObject {
    /// An object and its version.
    pub const fn new(version: ObjectVersion, json: Value) -> Self {
        Self { version, json }
    }

    /// The object's identity and version.
    pub const fn version(&self) -> &ObjectVersion {
        &self.version
    }

    /// Whether it is being deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.json.pointer("/metadata/deletionTimestamp").is_some()
    }

    /// The whole object, to compare it with a manifest and to preserve its injection site.
    pub const fn expose(&self) -> &Value {
        &self.json
    }
}

impl fmt::Debug for LiveObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LiveObject({} at {})", self.version.uid, self.version.resource_version)
    }
}

/// The status of a condition. Unknown never counts as True.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the status of its name")]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// The Kubernetes finalizer of foreground deletion.
pub const FOREGROUND: &str = "foregroundDeletion";

/// The status of a composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct XrStatus {
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is being deleted in the foreground: it carries the finalizer [`FOREGROUND`] and is deleted after all
    /// objects that it owns.
    pub foreground: bool,
    /// Its Ready condition.
    pub ready: Option<ConditionStatus>,
    /// The generation that its Ready condition refers to, if it names one.
    pub ready_generation: Option<i64>,
    /// Its Synced condition. Crossplane sets it to False while it cannot reconcile the object.
    pub synced: Option<ConditionStatus>,
    /// Crossplane reports a problem: Synced is False, and not because the object is paused.
    pub sync_failed: bool,
    /// The message of its `ProvisioningFailed` condition, if that is True.
    pub provisioning_failed: Option<String>,
}

impl XrStatus {
    /// The status of an object without conditions.
    pub const fn new(generation: i64) -> Self {
        Self {
            generation,
            deleting: false,
            foreground: false,
            ready: None,
            ready_generation: None,
            synced: None,
            sync_failed: false,
            provisioning_failed: None,
        }
    }

    /// Whether Crossplane reports it ready, for a resource in this phase.
    ///
    /// Before Ready, the condition must refer to the live generation, because an older True is stale. In Ready, the
    /// status alone counts: Crossplane's own writes raise the generation, and the resource must not flap on them.
    pub fn crossplane_ready(&self, current: Phase) -> bool {
        let fresh = current == Phase::Ready
            || self.ready_generation.is_none_or(|generation| generation == self.generation);
        self.ready == Some(ConditionStatus::True) && !self.deleting && fresh
    }

    /// Whether its Composition reported a terminal failure.
    pub const fn terminal_failure(&self) -> bool {
        self.provisioning_failed.is_some()
    }
}

/// The content of the arming annotation of a composite resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Arming {
    /// No annotation: it is a shell.
    Shell,
    /// Armed with a token, or without one if the blueprint injects none.
    Armed(Armed),
    /// Another writer set an invalid value. The object is not a shell, so it gets no token, and no row can match it.
    Unreadable,
}

/// The cached view of a composite resource: a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum CachedXr {
    /// The cache does not hold it. This proves nothing.
    Absent,
    /// The cache holds it.
    #[non_exhaustive]
    Present {
        /// Its uid and version.
        version: ObjectVersion,
        /// Its status.
        status: XrStatus,
        /// Its arming.
        armed: Arming,
        /// A digest of the fields that the broker owns, without the injection site.
        owned: Digest,
        /// A digest of its resource references.
        references: ReferencesDigest,
        /// Whether the broker's fields are unchanged since the apply.
        spec: SpecState,
        /// Whether its ProviderConfig exists.
        config: ConfigPresence,
    },
}

/// Whether the fields of a composite resource are unchanged since the broker's last apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpecState {
    /// Unchanged, or applied by an earlier release that stored no digest to compare with.
    AsApplied,
    /// Another writer changed or removed at least one field.
    Drifted,
}

/// Whether a cache holds the ProviderConfig of a resource: a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConfigPresence {
    /// The target names no kind of ProviderConfig, or the cache does not watch that kind.
    Unknown,
    /// The cache holds it.
    Present,
    /// The cache watches its kind and does not hold it.
    Missing,
}

impl CachedXr {
    /// A cached composite resource, as applied, with unknown ProviderConfig.
    pub const fn present(
        version: ObjectVersion,
        status: XrStatus,
        armed: Arming,
        owned: Digest,
        references: ReferencesDigest,
    ) -> Self {
        let (spec, config) = (SpecState::AsApplied, ConfigPresence::Unknown);
        Self::Present { version, status, armed, owned, references, spec, config }
    }

    /// Sets the state of the spec.
    #[must_use]
    pub fn with_spec(mut self, known: SpecState) -> Self {
        if let Self::Present { spec, .. } = &mut self {
            *spec = known;
        }
        self
    }

    /// Sets the presence of the ProviderConfig.
    #[must_use]
    pub fn with_config(mut self, known: ConfigPresence) -> Self {
        if let Self::Present { config, .. } = &mut self {
            *config = known;
        }
        self
    }
}

/// A reading: all objects of one resource, read directly.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reading {
    /// The cluster that was read.
    pub cluster: ClusterId,
    /// The composite resource.
    pub xr: XrReading,
    /// The ProviderConfig, if the target names one and it exists.
    pub provider_config: Option<LiveObject>,
    /// Each recorded object that the target names.
    pub recorded: BTreeMap<ObjectReference, Presence>,
    /// The objects among the blueprint's composed kinds that carry the composite label of this resource.
    pub labelled: BTreeSet<ObjectReference>,
}

impl Reading {
    /// A complete reading: an omitted object would count as absent.
    pub const fn new(
        cluster: ClusterId,
        xr: XrReading,
        provider_config: Option<LiveObject>,
        recorded: BTreeMap<ObjectReference, Presence>,
        labelled: BTreeSet<ObjectReference>,
    ) -> Self {
        Self { cluster, xr, provider_config, recorded, labelled }
    }
}

/// Whether an object exists, by a direct read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Presence {
    /// It exists.
    Present,
    /// The API server returned "not found".
    Gone,
}

/// A composite resource, by a direct read.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum XrReading {
    /// It exists.
    Present(Box<LiveXr>),
    /// The API server returned "not found".
    Absent,
    /// Its namespace does not exist, so it does not exist either.
    NamespaceAbsent,
    /// Its kind does not exist. During teardown this counts as absence, because a kind is removed only after its
    /// objects. While converging, an operator has to install it.
    KindAbsent,
}

/// An existing composite resource.
#[derive(Debug)]
#[non_exhaustive]
pub struct LiveXr {
    /// The object.
    pub object: LiveObject,
    /// Its status.
    pub status: XrStatus,
    /// Its arming.
    pub armed: Arming,
    /// The objects that it refers to.
    pub references: BTreeSet<ObjectReference>,
    /// A digest of the references.
    pub references_digest: ReferencesDigest,
}

impl LiveXr {
    /// A composite resource and its parsed fields.
    pub fn new(
        object: LiveObject,
        status: XrStatus,
        armed: Arming,
        references: BTreeSet<ObjectReference>,
    ) -> Self {
        let references_digest = references_digest(&references);
        Self { object, status, armed, references, references_digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> XrStatus {
        XrStatus {
            generation: 4,
            deleting: false,
            foreground: false,
            ready: Some(ConditionStatus::True),
            ready_generation: Some(4),
            synced: None,
            sync_failed: false,
            provisioning_failed: None,
        }
    }

    #[test]
    fn readiness_depends_on_generation_and_phase() {
        let stale = XrStatus { ready_generation: Some(3), ..ready() };
        let without_generation = XrStatus { ready_generation: None, ..ready() };
        let unknown = XrStatus { ready: Some(ConditionStatus::Unknown), ..ready() };
        let deleting = XrStatus { deleting: true, ..ready() };
        let rows = [
            ("True for the live generation", ready(), Phase::Provisioning, true),
            ("a stale True does not count before Ready", stale.clone(), Phase::Enrolling, false),
            ("a stale True keeps a Ready resource ready", stale, Phase::Ready, true),
            (
                "a condition without a generation counts",
                without_generation,
                Phase::Provisioning,
                true,
            ),
            ("Unknown is not True", unknown, Phase::Ready, false),
            ("an object being deleted is not ready", deleting, Phase::Ready, false),
            ("no condition is not True", XrStatus { ready: None, ..ready() }, Phase::Ready, false),
        ];
        for (why, status, current, expected) in rows {
            assert_eq!(status.crossplane_ready(current), expected, "{why}");
        }
    }
}
