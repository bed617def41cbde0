//! The legal changes of a resource. Each returns the resource as it is afterwards, with its event.

use time::OffsetDateTime;

use super::ProvisionedResource;
use crate::error::Error;
use crate::event::{Event, EventDetail, Stamp};
use crate::failure::{Failure, FailureReason};
use crate::ids::BootstrapTokenId;
use crate::phase::Phase;
use crate::substrate::Substrate;
use crate::token::TokenOrdinal;
use crate::version::Version;

/// A change that was decided and is not committed yet.
///
/// A store commits all of it or nothing: the resource, its event and the audit line, and only if the
/// stored resource still has the expected version.
///
/// ```
/// # use broker_domain::*;
/// # use time::OffsetDateTime;
/// # use uuid::Uuid;
/// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
/// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
/// # let declaration = Declaration::new(
/// #     ProjectId::new(Uuid::from_u128(1))?,
/// #     ResourceId::new(Uuid::from_u128(2))?,
/// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
/// #     CloudCredentialId::new(Uuid::from_u128(4))?,
/// # );
/// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
/// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
/// #     .into_resource();
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
    /// Moves to the phase that [`next`](crate::next()) decided. `None` when it is there already: then there
    /// is nothing to write and nothing to tell.
    ///
    /// Crossing into Ready and into Deleted carries an event, every other step is quiet.
    ///
    /// ```
    /// # use broker_domain::*;
    /// # use time::OffsetDateTime;
    /// # use uuid::Uuid;
    /// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    /// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
    /// # let declaration = Declaration::new(
    /// #     ProjectId::new(Uuid::from_u128(1))?,
    /// #     ResourceId::new(Uuid::from_u128(2))?,
    /// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
    /// #     CloudCredentialId::new(Uuid::from_u128(4))?,
    /// # );
    /// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
    /// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
    /// #     .into_resource();
    /// let provisioning = pending.advance(Phase::Provisioning, stamp)?.unwrap();
    /// assert_eq!(provisioning.event(), None);
    /// assert_eq!(pending.advance(Phase::Pending, stamp)?, None);
    /// assert!(pending.advance(Phase::Deleted, stamp).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::IllegalTransition`] along an edge that is not in the state machine; into Failed, which
    ///   takes a reason (see [`fail`](Self::fail)); and into Deregistering from outside of teardown, which
    ///   takes a deletion request (see [`request_deletion`](Self::request_deletion)).
    /// - [`Error::InvalidInput`] when the resource cannot be there: a node in Ready without a token, a
    ///   resource in Deleted whose tokens were not confirmed closed.
    pub fn advance(&self, to: Phase, stamp: Stamp) -> Result<Option<Change>, Error> {
        if to == self.phase {
            return Ok(None);
        }
        let asks_for_more = match to {
            Phase::Failed => true,
            Phase::Deregistering => !self.phase.is_teardown(),
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Ready
            | Phase::Deprovisioning
            | Phase::Deleted => false,
        };
        if asks_for_more || !self.phase.can_become(to) {
            return Err(Error::IllegalTransition { from: self.phase, to });
        }
        let detail = match to {
            Phase::Ready => Some(EventDetail::Ready),
            Phase::Deleted => {
                self.require_closed_tokens()?;
                Some(EventDetail::Deleted { abandoned: false })
            }
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Failed
            | Phase::Deregistering
            | Phase::Deprovisioning => None,
        };
        self.changed(stamp, detail, |resource, at| resource.enter(to, at)).checked().map(Some)
    }

    /// Fails terminally, in the phase where it stands. `None` when it has failed already.
    ///
    /// ```
    /// # use broker_domain::*;
    /// # use time::OffsetDateTime;
    /// # use uuid::Uuid;
    /// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    /// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
    /// # let declaration = Declaration::new(
    /// #     ProjectId::new(Uuid::from_u128(1))?,
    /// #     ResourceId::new(Uuid::from_u128(2))?,
    /// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
    /// #     CloudCredentialId::new(Uuid::from_u128(4))?,
    /// # );
    /// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
    /// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
    /// #     .into_resource();
    /// let failed = pending.fail(FailureReason::from_message("quota exceeded"), stamp)?.unwrap();
    /// assert_eq!(failed.resource().phase(), Phase::Failed);
    /// assert_eq!(failed.resource().failure().unwrap().step(), Phase::Pending);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::IllegalTransition`] in teardown: nothing fails there, it is tried again.
    pub fn fail(&self, reason: FailureReason, stamp: Stamp) -> Result<Option<Change>, Error> {
        if self.phase == Phase::Failed {
            return Ok(None);
        }
        if !self.phase.can_become(Phase::Failed) {
            return Err(Error::IllegalTransition { from: self.phase, to: Phase::Failed });
        }
        let failure = Failure::new(self.phase, reason)?;
        let detail = EventDetail::Failed(failure.clone());
        let change = self.changed(stamp, Some(detail), |resource, at| {
            resource.enter(Phase::Failed, at);
            resource.failure = Some(failure);
        });
        Ok(Some(change))
    }

    /// Accepts a deletion request: into Deregistering, from every phase on the way up and from Failed.
    /// `None` when it is already tearing down, or gone.
    ///
    /// ```
    /// # use broker_domain::*;
    /// # use time::OffsetDateTime;
    /// # use uuid::Uuid;
    /// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    /// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
    /// # let declaration = Declaration::new(
    /// #     ProjectId::new(Uuid::from_u128(1))?,
    /// #     ResourceId::new(Uuid::from_u128(2))?,
    /// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
    /// #     CloudCredentialId::new(Uuid::from_u128(4))?,
    /// # );
    /// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
    /// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
    /// #     .into_resource();
    /// let leaving = pending.request_deletion(stamp).unwrap();
    /// assert_eq!(leaving.event().unwrap().event_type(), EventType::Deleting);
    /// assert_eq!(leaving.resource().request_deletion(stamp), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn request_deletion(&self, stamp: Stamp) -> Option<Change> {
        if self.phase.is_teardown() {
            return None;
        }
        let change = self.changed(stamp, Some(EventDetail::Deleting), |resource, at| {
            resource.enter(Phase::Deregistering, at);
            resource.deletion_requested_at = Some(at);
        });
        Some(change)
    }

    /// Gives up a teardown: into Deleted without proof that everything is gone. The event says so.
    ///
    /// ```
    /// # use broker_domain::*;
    /// # use time::OffsetDateTime;
    /// # use uuid::Uuid;
    /// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    /// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
    /// # let declaration = Declaration::new(
    /// #     ProjectId::new(Uuid::from_u128(1))?,
    /// #     ResourceId::new(Uuid::from_u128(2))?,
    /// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
    /// #     CloudCredentialId::new(Uuid::from_u128(4))?,
    /// # );
    /// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
    /// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
    /// #     .into_resource();
    /// let leaving = pending.request_deletion(stamp).unwrap().into_resource();
    /// let closed = leaving.record_closed(at)?.unwrap().into_resource();
    /// let given_up = closed.abandon(stamp)?;
    /// assert!(matches!(given_up.event().unwrap().detail(), EventDetail::Deleted { abandoned: true, .. }));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::IllegalTransition`] anywhere but in Deregistering and Deprovisioning.
    /// - [`Error::InvalidInput`] when its tokens were not confirmed closed: what is given up must at least
    ///   bring forth no Node.
    pub fn abandon(&self, stamp: Stamp) -> Result<Change, Error> {
        if !matches!(self.phase, Phase::Deregistering | Phase::Deprovisioning) {
            return Err(Error::IllegalTransition { from: self.phase, to: Phase::Deleted });
        }
        self.require_closed_tokens()?;
        let detail = EventDetail::Deleted { abandoned: true };
        Ok(self.changed(stamp, Some(detail), |resource, at| {
            resource.enter(Phase::Deleted, at);
            resource.abandoned = true;
        }))
    }

    /// Records the token that was issued for it, before that token is put anywhere.
    ///
    /// ```
    /// # use broker_domain::*;
    /// # use time::OffsetDateTime;
    /// # use uuid::Uuid;
    /// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    /// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
    /// # let declaration = Declaration::new(
    /// #     ProjectId::new(Uuid::from_u128(1))?,
    /// #     ResourceId::new(Uuid::from_u128(2))?,
    /// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
    /// #     CloudCredentialId::new(Uuid::from_u128(4))?,
    /// # );
    /// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
    /// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
    /// #     .into_resource();
    /// let token = BootstrapTokenId::new(Uuid::from_u128(6))?;
    /// let recorded = pending.record_token(token, TokenOrdinal::FIRST, at)?;
    /// assert_eq!(recorded.resource().bootstrap_token_id(), Some(token));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] on a standalone resource, outside the way up, and for an ordinal that is
    /// neither the current one nor the next.
    pub fn record_token(
        &self,
        token: BootstrapTokenId,
        ordinal: TokenOrdinal,
        at: OffsetDateTime,
    ) -> Result<Change, Error> {
        if !self.phase.is_converging() {
            return Err(Error::invalid(
                "bootstrap_token_id",
                format!("cannot be recorded in {}; tokens are issued on the way up", self.phase),
            ));
        }
        if ordinal != self.token_ordinal && ordinal != self.token_ordinal.next() {
            return Err(Error::invalid(
                "token_ordinal",
                format!("is {ordinal}; use {} or the next", self.token_ordinal),
            ));
        }
        self.changed_quietly(at, |resource| {
            resource.bootstrap_token_id = Some(token);
            resource.token_ordinal = ordinal;
        })
        .checked()
    }

    /// Records that the issuer confirmed: no token of it is live, and none will ever be issued again.
    /// `None` when that is on record.
    ///
    /// ```
    /// # use broker_domain::*;
    /// # use time::OffsetDateTime;
    /// # use uuid::Uuid;
    /// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    /// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
    /// # let declaration = Declaration::new(
    /// #     ProjectId::new(Uuid::from_u128(1))?,
    /// #     ResourceId::new(Uuid::from_u128(2))?,
    /// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
    /// #     CloudCredentialId::new(Uuid::from_u128(4))?,
    /// # );
    /// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
    /// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
    /// #     .into_resource();
    /// let leaving = pending.request_deletion(stamp).unwrap().into_resource();
    /// let closed = leaving.record_closed(at)?.unwrap();
    /// assert!(closed.resource().token_closed());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] outside of teardown.
    pub fn record_closed(&self, at: OffsetDateTime) -> Result<Option<Change>, Error> {
        if self.token_closed {
            return Ok(None);
        }
        self.changed_quietly(at, |resource| resource.token_closed = true).checked().map(Some)
    }

    /// Records what stands on the cluster: made from [`substrate`](Self::substrate) by adding what an
    /// observation showed and taking out what a direct read found gone. `None` when that is on record.
    ///
    /// ```
    /// # use broker_domain::*;
    /// # use time::OffsetDateTime;
    /// # use uuid::Uuid;
    /// # let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    /// # let stamp = Stamp::new(EventId::new(Uuid::from_u128(9))?, at);
    /// # let declaration = Declaration::new(
    /// #     ProjectId::new(Uuid::from_u128(1))?,
    /// #     ResourceId::new(Uuid::from_u128(2))?,
    /// #     BlueprintVersionId::new(Uuid::from_u128(3))?,
    /// #     CloudCredentialId::new(Uuid::from_u128(4))?,
    /// # );
    /// # let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
    /// # let pending = ProvisionedResource::new(id, &declaration, MeshRole::Node, Parameters::default(), stamp)?
    /// #     .into_resource();
    /// let vm = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "vm", Some("team-a"))?;
    /// let seen = pending.substrate().clone().observed([vm], ReferencesDigest::new([1; 32]));
    /// let recorded = pending.record_substrate(seen, at)?.unwrap();
    /// assert_eq!(recorded.resource().substrate().composed().len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the resource would change clusters, and when it is Deleted.
    pub fn record_substrate(
        &self,
        substrate: Substrate,
        at: OffsetDateTime,
    ) -> Result<Option<Change>, Error> {
        if substrate == self.substrate {
            return Ok(None);
        }
        if self.phase == Phase::Deleted {
            return Err(Error::invalid("substrate", "cannot change in Deleted"));
        }
        if let Some(recorded) = self.substrate.cluster()
            && substrate.cluster() != Some(recorded)
        {
            return Err(Error::invalid(
                "cluster_id",
                format!("cannot change; the objects of this resource stand on {recorded}"),
            ));
        }
        Ok(Some(self.changed_quietly(at, |resource| resource.substrate = substrate)))
    }

    /// Invariant: no resource is Deleted while a token of it could still bring forth a Node
    /// (`deleted_needs_closed_tokens`).
    fn require_closed_tokens(&self) -> Result<(), Error> {
        if self.token_closed {
            return Ok(());
        }
        Err(Error::invalid(
            "token_closed",
            "is not set; tokens are closed before a resource is Deleted",
        ))
    }

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
    fn not_before(&self, at: OffsetDateTime) -> OffsetDateTime {
        at.max(self.updated_at)
    }
}
