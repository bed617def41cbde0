//! What the world is told when a resource crosses a threshold.

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
/// Only the aggregate's own methods make one, together with the change that it tells of, so that no event
/// is forgotten, invented or numbered by hand:
///
/// ```compile_fail,E0451
/// # use broker_domain::{Event, EventDetail};
/// fn retell(event: Event) -> EventDetail {
///     Event { detail: EventDetail::Ready, ..event }.detail().clone()
/// }
/// ```
///
/// The twin that does compile:
///
/// ```
/// # use broker_domain::{Event, EventDetail};
/// fn retell(event: Event) -> EventDetail {
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

/// What an event tells beyond the resource that it is about.
///
/// The set is closed, as [`EventType`] is; a variant may come to tell more.
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
        /// The tenancy Resource that the substrate will back.
        resource_id: ResourceId,
        /// From which blueprint.
        blueprint_version_id: BlueprintVersionId,
        /// With which credential.
        cloud_credential_id: CloudCredentialId,
    },
    /// A deletion request was accepted.
    Deleting,
    /// The resource crossed into Ready. It may do so again, if its composite resource was lost meanwhile.
    Ready,
    /// The resource failed terminally.
    Failed(Failure),
    /// The resource came to its end.
    #[non_exhaustive]
    Deleted {
        /// Nobody proved that everything is gone: a person took the responsibility.
        abandoned: bool,
        /// Composed Secrets or ConfigMaps were not proven gone: no look showed the foreground deletion of their
        /// owner, and the garbage collector removes them.
        left_to_garbage_collection: bool,
    },
}

/// The discriminator of an event, part of the wire contract letter for letter.
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

/// What the outside gives to a change: a fresh event id, in case it carries an event, and the time.
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
    /// The id of the event, should there be one.
    pub event_id: EventId,
    /// When the change is made.
    pub at: OffsetDateTime,
}

impl Stamp {
    /// An id and a time.
    pub const fn new(event_id: EventId, at: OffsetDateTime) -> Self {
        Self { event_id, at }
    }
}

impl Event {
    /// The event of a resource that was just changed: `resource` is the aggregate as it is after the
    /// change, numbered already.
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

    /// The event's own id.
    pub const fn id(&self) -> EventId {
        self.id
    }

    /// When the change was made.
    pub const fn occurred_at(&self) -> OffsetDateTime {
        self.occurred_at
    }

    /// Its place among the resource's events: 1, 2, 3 and so on, without a gap.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The resource.
    pub const fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        self.provisioned_resource_id
    }

    /// The resource's Project.
    pub const fn project_id(&self) -> ProjectId {
        self.project_id
    }

    /// The name of the resource's objects on the cluster.
    pub const fn xr_name(&self) -> &XrName {
        &self.xr_name
    }

    /// What it tells.
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
    /// Every type.
    pub const ALL: [Self; 5] =
        [Self::Requested, Self::Deleting, Self::Ready, Self::Failed, Self::Deleted];

    /// The discriminator's text.
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
