//! Emit stage: the lifecycle events of a resource.

use std::fmt;

use time::OffsetDateTime;

use crate::error::Error;
use crate::failure::Failure;
use crate::ids::{
    BlueprintVersionId, CloudCredentialId, EventId, ProjectId, ProvisionedResourceId, ResourceId,
    XrName,
};
use crate::provisioned_resource::ProvisionedResource;

/// A lifecycle event of one resource.
///
/// Only the aggregate's methods create events, together with the change they report. No event can be omitted,
/// invented or numbered by hand:
///
/// ```compile_fail,E0451
/// # use broker_domain::{Event, EventDetail};
/// fn copy_detail(event: Event) -> EventDetail {
///     Event { detail: EventDetail::Ready, ..event }.detail().clone()
/// }
/// ```
///
/// The counterpart that compiles:
///
/// ```
/// # use broker_domain::{Event, EventDetail};
/// fn copy_detail(event: Event) -> EventDetail {
///     event.detail().clone()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event {
    id: EventId,
    occurred_at: OffsetDateTime,
    sequence: u64,
    provisioned_resource_id: ProvisionedResourceId,
    project_id: ProjectId,
    xr_name: XrName,
    detail: EventDetail,
}

/// The payload of an event, besides the identity of its resource.
///
/// The set of variants is closed, as [`EventType`] is; a variant may gain fields.
///
/// ```
/// use broker_domain::{Event, EventDetail};
///
/// fn headline(event: &Event) -> String {
///     match event.detail() {
///         EventDetail::Failed(failure) => format!("failed in {}: {}", failure.step(), failure.reason()),
///         EventDetail::Deleted { abandoned: true, .. } => "given up".to_owned(),
///         _ => event.event_type().to_string(),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EventDetail {
    /// A declaration was accepted.
    #[non_exhaustive]
    Requested {
        /// The platform's Resource that the Node will represent.
        resource_id: ResourceId,
        /// The blueprint version that the resource is rendered from.
        blueprint_version_id: BlueprintVersionId,
        /// The cloud credential that the resource uses.
        cloud_credential_id: CloudCredentialId,
    },
    /// A deletion request was accepted.
    Deleting,
    /// The resource reached Ready. Repeats if its composite resource was lost in the meantime.
    Ready,
    /// The resource failed terminally.
    Failed(Failure),
    /// The resource is deleted.
    #[non_exhaustive]
    Deleted {
        /// An operator abandoned the teardown; the broker did not prove that everything is gone.
        abandoned: bool,
        /// Composed Secrets or ConfigMaps may remain: no observation showed the foreground deletion of their
        /// owner. The garbage collector removes them.
        left_to_garbage_collection: bool,
    },
}

/// The discriminator of an event: part of the wire contract, byte for byte.
///
/// ```
/// use broker_domain::EventType;
///
/// assert_eq!(EventType::Ready.as_str(), "broker.ProvisionedResourceReady");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// See [`EventDetail::Requested`].
    Requested,
    /// See [`EventDetail::Deleting`].
    Deleting,
    /// See [`EventDetail::Ready`].
    Ready,
    /// See [`EventDetail::Failed`].
    Failed,
    /// See [`EventDetail::Deleted`].
    Deleted,
}

/// The event id and the time that a caller supplies to a change.
///
/// ```
/// use broker_domain::{EventId, Stamp};
/// use time::OffsetDateTime;
/// use uuid::Uuid;
///
/// let at = OffsetDateTime::from_unix_timestamp(1_790_000_000)?;
/// let stamp = Stamp::new(EventId::new(Uuid::from_u128(1))?, at);
/// assert_eq!(stamp.at, at);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The id of the event, if the change emits one.
    pub event_id: EventId,
    /// The time of the change.
    pub at: OffsetDateTime,
}

impl Stamp {
    /// Combines an event id and a time.
    pub const fn new(event_id: EventId, at: OffsetDateTime) -> Self {
        Self { event_id, at }
    }
}

impl Event {
    /// Builds the event of a change; `resource` is the state after the change and carries the new sequence
    /// number.
    pub(crate) fn of(resource: &ProvisionedResource, stamp: Stamp, detail: EventDetail) -> Self {
        Self {
            id: stamp.event_id,
            occurred_at: resource.updated_at(),
            sequence: resource.event_sequence(),
            provisioned_resource_id: resource.id(),
            project_id: resource.project_id(),
            xr_name: resource.xr_name(),
            detail,
        }
    }

    /// The id of the event.
    pub const fn id(&self) -> EventId {
        self.id
    }

    /// The time of the change.
    pub const fn occurred_at(&self) -> OffsetDateTime {
        self.occurred_at
    }

    /// The position among the resource's events: 1, 2, 3, without gaps.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The id of the resource.
    pub const fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        self.provisioned_resource_id
    }

    /// The Project of the resource.
    pub const fn project_id(&self) -> ProjectId {
        self.project_id
    }

    /// The name of the resource's objects on the cluster.
    pub const fn xr_name(&self) -> &XrName {
        &self.xr_name
    }

    /// The payload.
    pub const fn detail(&self) -> &EventDetail {
        &self.detail
    }

    /// The discriminator.
    pub const fn event_type(&self) -> EventType {
        match self.detail {
            EventDetail::Requested { .. } => EventType::Requested,
            EventDetail::Deleting => EventType::Deleting,
            EventDetail::Ready => EventType::Ready,
            EventDetail::Failed(_) => EventType::Failed,
            EventDetail::Deleted { .. } => EventType::Deleted,
        }
    }
}

impl EventType {
    /// Every event type.
    pub const ALL: [Self; 5] =
        [Self::Requested, Self::Deleting, Self::Ready, Self::Failed, Self::Deleted];

    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "broker.ProvisionedResourceRequested",
            Self::Deleting => "broker.ProvisionedResourceDeleting",
            Self::Ready => "broker.ProvisionedResourceReady",
            Self::Failed => "broker.ProvisionedResourceFailed",
            Self::Deleted => "broker.ProvisionedResourceDeleted",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TryFrom<&str> for EventType {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|event_type| event_type.as_str() == text).ok_or_else(|| {
            Error::invalid(
                "event_type",
                format!(
                    "{text:?} is not an event type; use one of {}",
                    Self::ALL.map(Self::as_str).join(", ")
                ),
            )
        })
    }
}
