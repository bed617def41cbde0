//! Observe: an inspection, the input of explain. Each part is known or holds the error that prevented it.

use broker_domain::{ClusterId, ObjectReference};
use broker_render::Digest;
use time::OffsetDateTime;

use super::live::ConditionStatus;
use crate::error::PortError;

/// A part of an inspection, or the error that prevented it.
pub type Inspected<T> = Result<T, PortError>;

/// The objects of one resource, as far as they could be read. Messages are scrubbed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The cluster's id.
    pub cluster: Inspected<ClusterId>,
    /// The state of the Project's namespace.
    pub namespace: Inspected<NamespaceState>,
    /// Whether the kind of the composite resource is installed.
    pub kind_installed: Inspected<bool>,
    /// The composite resource; `None` if it is absent.
    pub xr: Inspected<Option<ObjectReport>>,
    /// The ProviderConfig; `None` if it is absent.
    pub provider_config: Inspected<Option<ObjectReport>>,
    /// The composed objects: those on record, those that the composite resource refers to, and those that carry its
    /// label.
    pub composed: Vec<(ObjectReference, Inspected<Option<ObjectReport>>)>,
    /// Recent events of the composite resource, newest first.
    pub events: Inspected<Vec<ClusterEvent>>,
}

impl Inspection {
    /// An inspection in which every part is an error. An adapter starts with this and sets each part that it read, so
    /// an omitted part is unknown and never absent.
    ///
    /// ```
    /// use broker_ports::{Inspection, NamespaceState};
    ///
    /// let mut inspection = Inspection::new();
    /// inspection.namespace = Ok(NamespaceState::Active);
    /// assert_eq!(inspection.xr.unwrap_err().to_string(), "not requested");
    /// ```
    #[expect(
        clippy::new_without_default,
        reason = "an inspection of unknown parts is not a sensible default"
    )]
    pub fn new() -> Self {
        fn unknown<T>() -> Inspected<T> {
            Err(PortError::transient("not requested"))
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
    /// It exists.
    Active,
    /// It is being deleted.
    Terminating,
    /// It does not exist.
    Absent,
}

/// One object of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectReport {
    /// Its uid.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// The finalizers that delay its deletion.
    pub finalizers: Vec<String>,
    /// When its deletion was requested.
    pub deleting_since: Option<OffsetDateTime>,
    /// Whether it carries Crossplane's pause annotation.
    pub paused: bool,
    /// The annotation that distinguishes an armed composite resource from a shell.
    pub armed: Option<String>,
    /// The Composition that a composite resource names.
    pub composition: Option<String>,
    /// Other field managers that own fields which the broker sends.
    pub rival_managers: Vec<String>,
    /// A digest of the fields that the broker owns, without the injection site; `None` if it owns none.
    pub owned: Option<Digest>,
    /// Whether another writer changed or removed a field of an armed composite resource since the broker applied it.
    pub drifted: bool,
}

impl ObjectReport {
    /// A report with uid and generation only.
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
    /// The generation that it refers to, if it names one.
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition without a reason.
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

    /// Sets the reason in one word and the scrubbed message.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.reason = reason.into();
        self.message = message.into();
        self
    }
}

/// A Kubernetes event about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterEvent {
    /// When it last occurred.
    pub at: Option<OffsetDateTime>,
    /// Its reason in one word, scrubbed.
    pub reason: String,
    /// Its message, scrubbed.
    pub message: String,
    /// Whether it is a warning.
    pub warning: bool,
}

impl ClusterEvent {
    /// A normal event with scrubbed reason and message.
    pub fn new(
        at: Option<OffsetDateTime>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { at, reason: reason.into(), message: message.into(), warning: false }
    }

    /// Marks it as a warning.
    #[must_use]
    pub const fn as_warning(mut self) -> Self {
        self.warning = true;
        self
    }
}
