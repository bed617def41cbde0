//! What is read from the cluster: facts in the clear, and the object itself behind a wall.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use broker_domain::{ClusterId, ObjectReference, Phase, ReferencesDigest};
use broker_render::{Armed, Digest, references_digest};
use serde_json::Value;

use super::write::ObjectVersion;

/// An object as it stands on the cluster. It may hold an injected token, so it is not printed, not
/// serialised and not copied.
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
/// The twins that do compile:
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

    /// Which object it is, at which version.
    pub const fn version(&self) -> &ObjectVersion {
        &self.version
    }

    /// It is being deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.json.pointer("/metadata/deletionTimestamp").is_some()
    }

    /// The whole object, for comparing it with a manifest and for keeping its injection site.
    pub const fn expose(&self) -> &Value {
        &self.json
    }
}

impl fmt::Debug for LiveObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LiveObject({} at {})", self.version.uid, self.version.resource_version)
    }
}

/// The status of a condition. Unknown is never True.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the status of its name")]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// Kubernetes' finalizer on an object that is deleted in the foreground.
pub const FOREGROUND: &str = "foregroundDeletion";

/// What a composite resource says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct XrStatus {
    /// The generation of its spec.
    pub generation: i64,
    /// It is being deleted.
    pub deleting: bool,
    /// It is being deleted in the foreground: it carries the finalizer [`FOREGROUND`] and goes after everything that it
    /// owns.
    pub foreground: bool,
    /// Its Ready condition, if it has one.
    pub ready: Option<ConditionStatus>,
    /// The generation that its Ready condition speaks of, where it says so.
    pub ready_generation: Option<i64>,
    /// Its Synced condition, if it has one: False while Crossplane cannot keep it up to date.
    pub synced: Option<ConditionStatus>,
    /// The message of its `ProvisioningFailed` condition, if that is True.
    pub provisioning_failed: Option<String>,
}

impl XrStatus {
    /// What a composite resource says of itself that says nothing yet.
    pub const fn new(generation: i64) -> Self {
        Self {
            generation,
            deleting: false,
            foreground: false,
            ready: None,
            ready_generation: None,
            synced: None,
            provisioning_failed: None,
        }
    }

    /// Whether Crossplane calls it ready, as seen from a phase.
    ///
    /// On the way to Ready the condition must speak of the live generation, or a stale True would count. A
    /// resource that is Ready stays so on the status alone: Crossplane raises the generation by its own
    /// writes, and a resource must not flap on that.
    pub fn crossplane_ready(&self, current: Phase) -> bool {
        let fresh = current == Phase::Ready
            || self.ready_generation.is_none_or(|generation| generation == self.generation);
        self.ready == Some(ConditionStatus::True) && !self.deleting && fresh
    }

    /// Whether its Composition declared that it will never work.
    pub const fn terminal_failure(&self) -> bool {
        self.provisioning_failed.is_some()
    }
}

/// What a composite resource says it is armed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arming {
    /// Nothing: it is a shell.
    Shell,
    /// A token, or nothing that is ever injected.
    Armed(Armed),
    /// Somebody wrote something else there. It is no shell, so that it gets no token, and it is armed with
    /// nothing that a row can name.
    Unreadable,
}

/// What a cache or list shows of a composite resource: a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachedXr {
    /// It was not seen. That proves nothing.
    Absent,
    /// It was seen.
    #[non_exhaustive]
    Present {
        /// Which object, at which version.
        version: ObjectVersion,
        /// What it says of itself.
        status: XrStatus,
        /// With what it is armed.
        armed: Arming,
        /// A digest over the fields that we own, without the injection site.
        owned: Digest,
        /// A digest over the objects that it refers to.
        references: ReferencesDigest,
        /// Whether the fields that we own are as they were applied.
        spec: SpecState,
        /// Whether its ProviderConfig stands.
        config: ConfigPresence,
    },
}

/// Whether the fields of a composite resource are as the broker applied them last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpecState {
    /// They are, or an earlier release applied them and left no digest to compare them with.
    AsApplied,
    /// Another writer changed or removed at least one of them.
    Drifted,
}

/// Whether the ProviderConfig of a resource stands, as a cache shows it: a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConfigPresence {
    /// The target named no kind of ProviderConfig, or the cache does not follow it.
    Unknown,
    /// The cache shows it.
    Present,
    /// The cache follows its kind and does not show it.
    Missing,
}

impl CachedXr {
    /// A composite resource that was seen, and what was read out of it: as it was applied, with a ProviderConfig of which
    /// nothing is known.
    pub const fn seen(
        version: ObjectVersion,
        status: XrStatus,
        armed: Arming,
        owned: Digest,
        references: ReferencesDigest,
    ) -> Self {
        let (spec, config) = (SpecState::AsApplied, ConfigPresence::Unknown);
        Self::Present { version, status, armed, owned, references, spec, config }
    }

    /// With what is known of its spec.
    #[must_use]
    pub fn with_spec(mut self, known: SpecState) -> Self {
        if let Self::Present { spec, .. } = &mut self {
            *spec = known;
        }
        self
    }

    /// With what is known of its ProviderConfig.
    #[must_use]
    pub fn with_config(mut self, known: ConfigPresence) -> Self {
        if let Self::Present { config, .. } = &mut self {
            *config = known;
        }
        self
    }
}

/// Everything of one resource, read directly.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reading {
    /// The cluster that was read.
    pub cluster: ClusterId,
    /// The composite resource.
    pub xr: XrReading,
    /// The ProviderConfig, if the target names one and it stands.
    pub provider_config: Option<LiveObject>,
    /// Each recorded object that the target named.
    pub recorded: BTreeMap<ObjectReference, Presence>,
    /// What carries the composite label of this resource among the blueprint's composed kinds.
    pub labelled: BTreeSet<ObjectReference>,
}

impl Reading {
    /// What was read. All of it has to be given: whatever is left out would be said to be absent.
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

/// Whether an object stands, by a direct read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It stands.
    Present,
    /// The API server answered that it does not exist.
    Gone,
}

/// A composite resource, by a direct read.
#[derive(Debug)]
pub enum XrReading {
    /// It stands.
    Present(Box<LiveXr>),
    /// The API server answered that it does not exist.
    Absent,
    /// Its namespace does not exist, and so neither does it.
    NamespaceAbsent,
    /// Its kind does not exist. On the way down that is absence, for a kind goes only after its objects; on
    /// the way up somebody has to install it.
    KindAbsent,
}

/// A composite resource that stands.
#[derive(Debug)]
#[non_exhaustive]
pub struct LiveXr {
    /// The object.
    pub object: LiveObject,
    /// What it says of itself.
    pub status: XrStatus,
    /// With what it is armed.
    pub armed: Arming,
    /// The objects that it refers to.
    pub references: BTreeSet<ObjectReference>,
    /// A digest over them.
    pub references_digest: ReferencesDigest,
}

impl LiveXr {
    /// A composite resource and what was read out of it.
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
            provisioning_failed: None,
        }
    }

    #[test]
    fn readiness_has_its_reasons() {
        let stale = XrStatus { ready_generation: Some(3), ..ready() };
        let silent = XrStatus { ready_generation: None, ..ready() };
        let unknown = XrStatus { ready: Some(ConditionStatus::Unknown), ..ready() };
        let deleting = XrStatus { deleting: true, ..ready() };
        let rows = [
            ("True for the live generation", ready(), Phase::Provisioning, true),
            ("a stale True does not count on the way up", stale.clone(), Phase::Enrolling, false),
            ("a stale True keeps what is Ready", stale, Phase::Ready, true),
            ("a condition without a generation is believed", silent, Phase::Provisioning, true),
            ("Unknown is not True", unknown, Phase::Ready, false),
            ("what is being deleted is not ready", deleting, Phase::Ready, false),
            ("no condition is not True", XrStatus { ready: None, ..ready() }, Phase::Ready, false),
        ];
        for (why, status, current, expected) in rows {
            assert_eq!(status.crossplane_ready(current), expected, "{why}");
        }
    }
}
