//! A caller's write meets passes under way: it is made again from the new version until it is committed.

use std::future::Future;

use broker_domain::{Change, Error as DomainError, ProvisionedResource};
use broker_ports::{PortError, PortName, RequestContext, Written};

use super::Service;
use crate::call::{Kind, call};
use crate::error::Error;
use crate::telemetry;

/// How often a caller's write is attempted before the caller is told that the resource keeps changing.
const MOST_RACES: usize = 16;

impl Service {
    /// Attempts a write from what was read, and again from what is stored while the attempt answers `None`: stale.
    ///
    /// A repeated attempt is safe: a stale write stored nothing, and the next attempt makes its change from the
    /// version that is stored now.
    pub(super) async fn until_committed<T>(
        &self,
        context: &RequestContext,
        read: ProvisionedResource,
        attempt: impl AsyncFn(&ProvisionedResource) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut resource = read;
        for _ in 0..MOST_RACES {
            if let Some(done) = attempt(&resource).await? {
                return Ok(done);
            }
            resource = self.get(context, resource.id()).await?;
        }
        let (resource, expected) = (resource.id(), resource.version());
        Err(DomainError::StaleWrite { resource, expected }.into())
    }

    /// The resource as a write left it; `None` if the write was stale.
    pub(super) async fn written(
        &self,
        before: &ProvisionedResource,
        change: &Change,
        sent: impl Future<Output = Result<Written, PortError>>,
    ) -> Result<Option<ProvisionedResource>, Error> {
        let deadline = self.config.deadlines.store;
        Ok(match call(PortName::Repository, Kind::Write, deadline, sent).await? {
            Written::Committed => {
                telemetry::changed(before, change.resource());
                Some(change.resource().clone())
            }
            Written::Stale | Written::LeaseLost => None,
        })
    }
}
