//! Changes of phase: as decided, by failure, by request, and by giving up.

use super::Change;
use crate::error::Error;
use crate::event::{EventDetail, Stamp};
use crate::failure::{Failure, FailureReason};
use crate::phase::Phase;
use crate::provisioned_resource::ProvisionedResource;

impl ProvisionedResource {
    /// Moves to the phase that [`next`](crate::next()) decided. `None` when it is there already: then there
    /// is nothing to write and nothing to tell.
    ///
    /// Crossing into Ready and into Deleted carries an event, every other step is quiet.
    ///
    /// ```
    #[doc = include_str!("../example.md")]
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
    ///   resource in Deleted whose tokens were not confirmed closed or that still has objects on record.
    pub fn advance(&self, to: Phase, stamp: Stamp) -> Result<Option<Change>, Error> {
        if to == self.phase {
            return Ok(None);
        }
        let asks_for_more = match to {
            Phase::Failed => true,
            Phase::Deregistering => !self.phase.is_teardown(),
            Phase::Pending => self.phase == Phase::Failed,
            Phase::Provisioning
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
            Phase::Deleted => Some(EventDetail::Deleted {
                abandoned: false,
                left_to_garbage_collection: self.substrate.plain_data().next().is_some(),
            }),
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
    #[doc = include_str!("../example.md")]
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
    #[doc = include_str!("../example.md")]
    /// let leaving = pending.request_deletion(stamp).unwrap();
    /// assert_eq!(leaving.event().unwrap().event_type(), EventType::Deleting);
    /// assert_eq!(leaving.resource().request_deletion(stamp), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use = "a change that is not committed has not happened"]
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

    /// Sends a failed resource on its way again, because a person says that the cause is fixed. The next passes
    /// decide from the facts as they are then. Carries no event: the next one is Ready, or Failed again.
    ///
    /// ```
    #[doc = include_str!("../example.md")]
    /// let failed = pending.fail(FailureReason::from_message("out of quota"), stamp)?.unwrap();
    /// let retried = failed.resource().retry(stamp)?;
    /// assert_eq!(retried.resource().phase(), Phase::Pending);
    /// assert!(pending.retry(stamp).is_err(), "only a failure is retried");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::IllegalTransition`] in any phase but Failed.
    pub fn retry(&self, stamp: Stamp) -> Result<Change, Error> {
        if self.phase != Phase::Failed {
            return Err(Error::IllegalTransition { from: self.phase, to: Phase::Pending });
        }
        self.changed(stamp, None, |resource, at| {
            resource.enter(Phase::Pending, at);
            resource.failure = None;
        })
        .checked()
    }

    /// Gives up a teardown: into Deleted without proof that everything is gone. The event says so.
    ///
    /// ```
    #[doc = include_str!("../example.md")]
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
        let detail = EventDetail::Deleted { abandoned: true, left_to_garbage_collection: false };
        self.changed(stamp, Some(detail), |resource, at| {
            resource.enter(Phase::Deleted, at);
            resource.abandoned = true;
        })
        .checked()
    }
}
