//! What helps to explain a resource: facts that are known, and facts that say why they are not.

use broker_domain::{ClusterId, ObjectReference};
use broker_render::Digest;
use time::OffsetDateTime;

use super::live::ConditionStatus;
use crate::error::PortError;

/// A fact, or why it is not known.
pub type Inspected<T> = Result<T, PortError>;

/// Whatever could be learnt about one resource's objects. Messages are scrubbed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// Which cluster was asked.
    pub cluster: Inspected<ClusterId>,
    /// The state of the Project's namespace.
    pub namespace: Inspected<NamespaceState>,
    /// The kind of the composite resource is installed.
    pub kind_installed: Inspected<bool>,
    /// The composite resource, if it stands.
    pub xr: Inspected<Option<ObjectReport>>,
    /// The ProviderConfig, if it stands.
    pub provider_config: Inspected<Option<ObjectReport>>,
    /// The composed objects: those on record, those that the composite resource refers to, and those that
    /// carry its label.
    pub composed: Vec<(ObjectReference, Inspected<Option<ObjectReport>>)>,
    /// What was said about the composite resource lately, newest first.
    pub events: Inspected<Vec<ClusterEvent>>,
}

impl Inspection {
    /// Nothing was learnt, and every fact says so: where an adapter begins, which then sets each fact that it
    /// asked for. What it leaves out stays unknown and does not become absent.
    ///
    /// ```
    /// use broker_ports::{Inspection, NamespaceState};
    ///
    /// let mut inspection = Inspection::new();
    /// inspection.namespace = Ok(NamespaceState::Active);
    /// assert_eq!(inspection.xr.unwrap_err().to_string(), "nobody asked");
    /// ```
    #[expect(clippy::new_without_default, reason = "knowing nothing is no default to fall back on")]
    pub fn new() -> Self {
        fn unknown<T>() -> Inspected<T> {
            Err(PortError::transient("nobody asked"))
        }
        Self {
            cluster: unknown(),
            namespace: unknown(),
            kind_installed: unknown(),
            xr: unknown(),
            provider_config: unknown(),
            composed: Vec::new(),
            events: unknown(),
        }
    }
}

/// The state of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NamespaceState {
    /// It stands.
    Active,
    /// It is being deleted.
    Terminating,
    /// It does not exist.
    Absent,
}

/// What an object says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectReport {
    /// Its uid.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Who has to agree before it can go.
    pub finalizers: Vec<String>,
    /// Since when it is being deleted.
    pub deleting_since: Option<OffsetDateTime>,
    /// Somebody paused it.
    pub paused: bool,
    /// It carries the annotation that tells an armed composite resource from a shell.
    pub armed: Option<String>,
    /// The Composition that it names, of a composite resource.
    pub composition: Option<String>,
    /// Field managers other than ours that own fields which we would send.
    pub rival_managers: Vec<String>,
    /// A digest over the fields that we own, without the injection site; `None` where we own none.
    pub owned: Option<Digest>,
    /// Another writer changed or removed a field since the broker applied it, of an armed composite resource.
    pub drifted: bool,
}

impl ObjectReport {
    /// An object that says nothing of itself.
    pub fn new(uid: impl Into<String>, generation: i64) -> Self {
        Self {
            uid: uid.into(),
            generation,
            conditions: Vec::new(),
            finalizers: Vec::new(),
            deleting_since: None,
            paused: false,
            armed: None,
            composition: None,
            rival_managers: Vec::new(),
            owned: None,
            drifted: false,
        }
    }
}

/// A condition of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// Its type, such as `Ready`.
    pub kind: String,
    /// Its status.
    pub status: ConditionStatus,
    /// Its reason, in one word.
    pub reason: String,
    /// Its message, scrubbed.
    pub message: String,
    /// Since when it has this status.
    pub since: Option<OffsetDateTime>,
    /// The generation that it speaks of, where it says so.
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition that gives no reason.
    pub fn new(kind: impl Into<String>, status: ConditionStatus) -> Self {
        Self {
            kind: kind.into(),
            status,
            reason: String::new(),
            message: String::new(),
            since: None,
            observed_generation: None,
        }
    }

    /// With its reason in one word and its message, which was scrubbed.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.reason = reason.into();
        self.message = message.into();
        self
    }
}

/// Something that was said about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterEvent {
    /// When it was said last.
    pub at: Option<OffsetDateTime>,
    /// Why, in one word, scrubbed.
    pub reason: String,
    /// In words, scrubbed.
    pub message: String,
    /// It is a warning.
    pub warning: bool,
}

impl ClusterEvent {
    /// Something that was said and is no warning. Reason and message were scrubbed.
    pub fn new(
        at: Option<OffsetDateTime>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { at, reason: reason.into(), message: message.into(), warning: false }
    }

    /// It is a warning.
    #[must_use]
    pub const fn as_warning(mut self) -> Self {
        self.warning = true;
        self
    }
}
