//! Changes of phase: advance, failure, deletion request, retry and abandon.

use super::Change;
use crate::error::Error;
use crate::event::{EventDetail, Stamp};
use crate::failure::{Failure, FailureReason};
use crate::phase::Phase;
use crate::provisioned_resource::ProvisionedResource;

impl ProvisionedResource {
    /// Enters the phase that [`next`](crate::next()) decided. `None` (a no-op) if the resource is already in
    /// it.
    ///
    /// Entering Ready or Deleted emits an event; no other phase does.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
    /// let provisioning = pending.advance(Phase::Provisioning, stamp)?.unwrap();
    /// assert_eq!(provisioning.event(), None);
    /// assert_eq!(pending.advance(Phase::Pending, stamp)?, None);
    /// assert!(pending.advance(Phase::Deleted, stamp).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::IllegalTransition`] for an edge that the state machine lacks; for Failed, which needs a
    ///   reason (see [`fail`](Self::fail)); for Deregistering from outside of teardown, which needs a
    ///   deletion request (see [`request_deletion`](Self::request_deletion)); and for Pending from Failed
    ///   (see [`retry`](Self::retry)).
    /// - [`Error::InvalidInput`] when the result breaks an invariant: a node in Ready without a token, or a
    ///   Deleted resource with unclosed tokens or with objects on record.
    pub fn advance(&self, to: Phase, stamp: Stamp) -> Result<Option<Change>, Error> {
        if to == self.phase {
            return Ok(None);
        }
        let needs_own_method = match to {
            Phase::Failed => true,
            Phase::Deregistering => !self.phase.is_teardown(),
            Phase::Pending => self.phase == Phase::Failed,
            Phase::Provisioning
            | Phase::Enrolling
            | Phase::Ready
            | Phase::Deprovisioning
            | Phase::Deleted => false,
        };
        if needs_own_method || !self.phase.can_become(to) {
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
        self.change(stamp, detail, |resource, at| resource.enter(to, at)).validated().map(Some)
    }

    /// Fails terminally in the current phase. `None` (a no-op) if the resource has already failed.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
    /// let failed = pending.fail(FailureReason::from_message("quota exceeded"), stamp)?.unwrap();
    /// assert_eq!(failed.resource().phase(), Phase::Failed);
    /// assert_eq!(failed.resource().failure().unwrap().step(), Phase::Pending);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::IllegalTransition`] in teardown, where errors are retried and never terminal.
    pub fn fail(&self, reason: FailureReason, stamp: Stamp) -> Result<Option<Change>, Error> {
        if self.phase == Phase::Failed {
            return Ok(None);
        }
        if !self.phase.can_become(Phase::Failed) {
            return Err(Error::IllegalTransition { from: self.phase, to: Phase::Failed });
        }
        let failure = Failure::new(self.phase, reason)?;
        let detail = EventDetail::Failed(failure.clone());
        let change = self.change(stamp, Some(detail), |resource, at| {
            resource.enter(Phase::Failed, at);
            resource.failure = Some(failure);
        });
        Ok(Some(change))
    }

    /// Accepts a deletion request: enters Deregistering from a converging phase or from Failed. `None` (a
    /// no-op) once the teardown has begun.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
    /// let deletion = pending.request_deletion(stamp).unwrap();
    /// assert_eq!(deletion.event().unwrap().event_type(), EventType::Deleting);
    /// assert_eq!(deletion.resource().request_deletion(stamp), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use = "a change that is not committed has not happened"]
    pub fn request_deletion(&self, stamp: Stamp) -> Option<Change> {
        if self.phase.is_teardown() {
            return None;
        }
        let change = self.change(stamp, Some(EventDetail::Deleting), |resource, at| {
            resource.enter(Phase::Deregistering, at);
            resource.deletion_requested_at = Some(at);
        });
        Some(change)
    }

    /// Retries a failed resource after an operator fixed the cause. The next passes decide from current
    /// facts. Emits no event of its own; Ready or Failed follows.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
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
        self.change(stamp, None, |resource, at| {
            resource.enter(Phase::Pending, at);
            resource.failure = None;
        })
        .validated()
    }

    /// Abandons a teardown: enters Deleted without proof that everything is gone. The event records it.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
    /// let deletion = pending.request_deletion(stamp).unwrap().into_resource();
    /// let closed = deletion.record_closed(at)?.unwrap().into_resource();
    /// let abandoned = closed.abandon(stamp)?;
    /// assert!(matches!(abandoned.event().unwrap().detail(), EventDetail::Deleted { abandoned: true, .. }));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::IllegalTransition`] anywhere but in Deregistering and Deprovisioning.
    /// - [`Error::InvalidInput`] when the tokens are not confirmed closed: an abandoned resource must not
    ///   enrol a Node.
    pub fn abandon(&self, stamp: Stamp) -> Result<Change, Error> {
        if !matches!(self.phase, Phase::Deregistering | Phase::Deprovisioning) {
            return Err(Error::IllegalTransition { from: self.phase, to: Phase::Deleted });
        }
        let detail = EventDetail::Deleted { abandoned: true, left_to_garbage_collection: false };
        self.change(stamp, Some(detail), |resource, at| {
            resource.enter(Phase::Deleted, at);
            resource.abandoned = true;
        })
        .validated()
    }
}
