//! Changes within a phase, which emit no event.

use time::OffsetDateTime;

use super::Change;
use crate::error::Error;
use crate::ids::BootstrapTokenId;
use crate::phase::Phase;
use crate::provisioned_resource::ProvisionedResource;
use crate::substrate::{Substrate, XrUid};
use crate::token::TokenOrdinal;

impl ProvisionedResource {
    /// Records an issued token, before any object contains it.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
    /// let token = BootstrapTokenId::new(Uuid::from_u128(6))?;
    /// let recorded = pending.record_token(token, TokenOrdinal::FIRST, at)?;
    /// assert_eq!(recorded.resource().bootstrap_token_id(), Some(token));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] on a standalone resource, outside the converging phases, and for an ordinal
    /// that is neither the current one nor the next.
    pub fn record_token(
        &self,
        token: BootstrapTokenId,
        ordinal: TokenOrdinal,
        at: OffsetDateTime,
    ) -> Result<Change, Error> {
        if !self.phase.is_converging() {
            return Err(Error::invalid(
                "bootstrap_token_id",
                format!("cannot be recorded in {}; tokens are issued while converging", self.phase),
            ));
        }
        if ordinal != self.token_ordinal && ordinal != self.token_ordinal.next() {
            return Err(Error::invalid(
                "token_ordinal",
                format!(
                    "is {ordinal}; use {} or {}",
                    self.token_ordinal,
                    self.token_ordinal.next()
                ),
            ));
        }
        self.change_without_event(at, |resource| {
            resource.bootstrap_token_id = Some(token);
            resource.token_ordinal = ordinal;
        })
        .validated()
    }

    /// Like [`record_token`](Self::record_token), and records the uid of the composite resource that is about
    /// to be armed. With the uid on record, a later loss is distinguishable from a first creation, even if
    /// the response to the arm is lost.
    ///
    /// # Errors
    ///
    /// As [`record_token`](Self::record_token).
    pub fn record_token_for(
        &self,
        xr: XrUid,
        token: BootstrapTokenId,
        ordinal: TokenOrdinal,
        at: OffsetDateTime,
    ) -> Result<Change, Error> {
        let mut change = self.record_token(token, ordinal, at)?;
        change.resource.substrate = change.resource.substrate.armed(xr);
        change.validated()
    }

    /// Records that the issuer confirmed the closure: no token is live, and the issuer will never issue
    /// another. `None` if already recorded.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
    /// let deleting = pending.request_deletion(stamp).unwrap().into_resource();
    /// let closed = deleting.record_closed(at)?.unwrap();
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
        self.change_without_event(at, |resource| resource.token_closed = true).validated().map(Some)
    }

    /// Records the objects on the cluster. Derive the argument from [`substrate`](Self::substrate): add
    /// observed objects, remove those that a direct read found gone. `None` if nothing changes.
    ///
    /// ```
    #[doc = include_str!("../doctest_setup.md")]
    /// let vm = ObjectReference::new("nop.crossplane.io/v1", "NopResource", "vm", Some("team-a"))?;
    /// let cluster = ClusterId::new("kube-system-uid")?;
    /// let observed = pending.substrate().clone().on_cluster(cluster);
    /// let observed = observed.observed([vm], ReferencesDigest::new([1; 32]));
    /// let recorded = pending.record_substrate(observed, at)?.unwrap();
    /// assert_eq!(recorded.resource().substrate().composed().len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the change replaces the cluster or the ProviderConfig, records objects
    /// without a cluster, or affects a Deleted resource.
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
                format!("cannot change; the objects of this resource are on {recorded}"),
            ));
        }
        if let Some(recorded) = self.substrate.provider_config()
            && substrate.provider_config() != Some(recorded)
        {
            return Err(Error::invalid(
                "substrate",
                format!("cannot replace {recorded}; the name of a ProviderConfig stays on record"),
            ));
        }
        self.change_without_event(at, |resource| resource.substrate = substrate)
            .validated()
            .map(Some)
    }
}
