//! The legal changes of a resource. Each returns the resource as it is afterwards, with its event.

mod phase;
mod record;

use time::OffsetDateTime;

use super::ProvisionedResource;
use crate::error::Error;
use crate::event::{Event, EventDetail, Stamp};
use crate::phase::Phase;
use crate::substrate::ClusterId;
use crate::version::Version;

/// A change that was decided and is not committed yet.
///
/// A store commits all of it or nothing: the resource, its event and the audit line, and only if the
/// stored resource still has the expected version.
///
/// ```
#[doc = include_str!("example.md")]
/// let leaving: Change = pending.request_deletion(stamp).unwrap();
/// assert_eq!(leaving.previous_phase(), Some(Phase::Pending));
/// assert_eq!(leaving.expected_version(), pending.version());
/// assert_eq!(leaving.into_resource().phase(), Phase::Deregistering);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[must_use = "a change that is not committed has not happened"]
pub struct Change {
    resource: ProvisionedResource,
    event: Option<Event>,
    previous: Option<Phase>,
    expected: Version,
}

impl Change {
    pub(super) fn created(resource: ProvisionedResource, stamp: Stamp) -> Self {
        let detail = EventDetail::Requested {
            resource_id: resource.resource_id,
            blueprint_version_id: resource.blueprint_version_id,
            cloud_credential_id: resource.cloud_credential_id,
        };
        let event = Event::of(&resource, stamp, detail);
        Self { resource, event: Some(event), previous: None, expected: Version::UNSTORED }
    }

    /// A new resource that is bound to a cluster from the start, because its Project is assigned to that one. A
    /// stored resource keeps the cluster that it has.
    ///
    /// ```
    #[doc = include_str!("example.md")]
    /// let here = ClusterId::new("uid-1")?;
    /// let parameters = Parameters::default();
    /// let declared = ProvisionedResource::new(id, &declaration, MeshRole::Node, parameters, stamp)?;
    /// assert_eq!(declared.on_cluster(here.clone()).resource().substrate().cluster(), Some(&here));
    ///
    /// let leaving = pending.request_deletion(stamp).unwrap().on_cluster(here);
    /// assert_eq!(leaving.resource().substrate().cluster(), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        if self.previous.is_none() {
            self.resource.substrate = self.resource.substrate.on_cluster(cluster);
        }
        self
    }

    /// The resource as it is once the change is committed.
    pub const fn resource(&self) -> &ProvisionedResource {
        &self.resource
    }

    /// The event that has to be committed with it, if the change carries one.
    pub const fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// The phase before the change; `None` when the resource is new.
    pub const fn previous_phase(&self) -> Option<Phase> {
        self.previous
    }

    /// The version that the change was made from: what the store must still hold.
    pub const fn expected_version(&self) -> Version {
        self.expected
    }

    /// The resource, for whoever goes on with it after the commit.
    pub fn into_resource(self) -> ProvisionedResource {
        self.resource
    }

    /// Refuses a change into a resource that cannot be.
    fn checked(self) -> Result<Self, Error> {
        Ok(Self { resource: self.resource.build()?, ..self })
    }
}

impl ProvisionedResource {
    fn enter(&mut self, phase: Phase, at: OffsetDateTime) {
        self.phase = phase;
        self.phase_entered_at = at;
        if phase == Phase::Ready {
            self.first_ready_at.get_or_insert(at);
        }
    }

    /// A change without an event.
    fn changed_quietly(&self, at: OffsetDateTime, change: impl FnOnce(&mut Self)) -> Change {
        let mut resource = self.clone();
        change(&mut resource);
        resource.updated_at = self.not_before(at);
        resource.version = self.version.next();
        Change { resource, event: None, previous: Some(self.phase), expected: self.version }
    }

    /// A change of phase, with its event if it carries one.
    fn changed(
        &self,
        stamp: Stamp,
        detail: Option<EventDetail>,
        change: impl FnOnce(&mut Self, OffsetDateTime),
    ) -> Change {
        let at = self.not_before(stamp.at);
        let mut changed = self.changed_quietly(at, |resource| change(resource, at));
        if let Some(detail) = detail {
            changed.resource.event_sequence += 1;
            changed.event = Some(Event::of(&changed.resource, stamp, detail));
        }
        changed
    }

    /// Clocks of replicas differ: a change never seems to lie before the one that it was made from.
    ///
    /// `updated_at` may be the store's own, and its clock may lag behind the one that the last event was
    /// stamped with; the phase remembers that one.
    fn not_before(&self, at: OffsetDateTime) -> OffsetDateTime {
        at.max(self.updated_at).max(self.phase_entered_at)
    }
}
