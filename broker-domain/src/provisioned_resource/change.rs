//! The legal changes of a resource. Each returns the new state together with its event.

mod phase;
mod record;

use time::OffsetDateTime;

use super::ProvisionedResource;
use crate::error::Error;
use crate::event::{Event, EventDetail, Stamp};
use crate::phase::Phase;
use crate::substrate::ClusterId;
use crate::version::Version;

/// A change that is decided but not committed.
///
/// A store commits the resource, its event and the audit line atomically, and only if the stored resource
/// still has the expected version.
///
/// ```
#[doc = include_str!("doctest_setup.md")]
/// let deletion: Change = pending.request_deletion(stamp).unwrap();
/// assert_eq!(deletion.previous_phase(), Some(Phase::Pending));
/// assert_eq!(deletion.expected_version(), pending.version());
/// assert_eq!(deletion.into_resource().phase(), Phase::Deregistering);
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

    /// Binds a new resource to the cluster that its Project is assigned to. No-op for a stored resource,
    /// which keeps its cluster.
    ///
    /// ```
    #[doc = include_str!("doctest_setup.md")]
    /// let cluster = ClusterId::new("uid-1")?;
    /// let parameters = Parameters::default();
    /// let declared = ProvisionedResource::new(id, &declaration, MeshRole::Node, parameters, stamp)?;
    /// assert_eq!(declared.on_cluster(cluster.clone()).resource().substrate().cluster(), Some(&cluster));
    ///
    /// let deletion = pending.request_deletion(stamp).unwrap().on_cluster(cluster);
    /// assert_eq!(deletion.resource().substrate().cluster(), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        if self.previous.is_none() {
            self.resource.substrate = self.resource.substrate.on_cluster(cluster);
        }
        self
    }

    /// The state after the commit.
    pub const fn resource(&self) -> &ProvisionedResource {
        &self.resource
    }

    /// The event to commit with the change, if any.
    pub const fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// The phase before the change; `None` for a new resource.
    pub const fn previous_phase(&self) -> Option<Phase> {
        self.previous
    }

    /// The version that the store must still hold.
    pub const fn expected_version(&self) -> Version {
        self.expected
    }

    /// The state after the commit, by value.
    pub fn into_resource(self) -> ProvisionedResource {
        self.resource
    }

    fn validated(self) -> Result<Self, Error> {
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

    fn change_without_event(&self, at: OffsetDateTime, change: impl FnOnce(&mut Self)) -> Change {
        let mut resource = self.clone();
        change(&mut resource);
        resource.updated_at = self.monotonic(at);
        resource.version = self.version.next();
        Change { resource, event: None, previous: Some(self.phase), expected: self.version }
    }

    /// Applies a change, with its event if any.
    fn change(
        &self,
        stamp: Stamp,
        detail: Option<EventDetail>,
        change: impl FnOnce(&mut Self, OffsetDateTime),
    ) -> Change {
        let at = self.monotonic(stamp.at);
        let mut decided = self.change_without_event(at, |resource| change(resource, at));
        if let Some(detail) = detail {
            decided.resource.event_sequence += 1;
            decided.event = Some(Event::of(&decided.resource, stamp, detail));
        }
        decided
    }

    /// Keeps time monotonic although the clocks of replicas differ.
    ///
    /// `updated_at` may come from the store's clock, which may lag behind the clock that stamped the last
    /// event. `phase_entered_at` holds the latter.
    fn monotonic(&self, at: OffsetDateTime) -> OffsetDateTime {
        at.max(self.updated_at).max(self.phase_entered_at)
    }
}
