//! Retry: a failed resource whose cause is fixed converges again.

use broker_domain::{Error as DomainError, ProvisionedResource, ProvisionedResourceId};
use broker_ports::{PortName, RequestContext, Write, Written};

use super::{MOST_RACES, Service};
use crate::call::{Kind, call};
use crate::error::Error;
use crate::telemetry;

impl Service {
    /// Sends a failed resource on its way again. The next pass decides from the facts: if the composite resource
    /// still says that it failed for good, the resource fails again.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `illegal_transition` in any phase but Failed; `stale_write` if the
    /// resource kept changing; `repository_…`.
    pub async fn retry(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Error> {
        let mut resource = self.get(context, id).await?;
        for _ in 0..MOST_RACES {
            let change = resource.retry(self.stamp())?;
            let write = Write::by_caller(&change, context.attribution());
            let sent = self.ports.repository.record_retry(&write);
            let deadline = self.config.deadlines.store;
            match call(PortName::Repository, Kind::Write, deadline, sent).await? {
                Written::Committed => {
                    telemetry::changed(&resource, change.resource());
                    return Ok(change.into_resource());
                }
                // Doing it again is safe: the change is made from what is stored now.
                Written::Stale | Written::LeaseLost => resource = self.get(context, id).await?,
            }
        }
        Err(DomainError::StaleWrite { resource: id, expected: resource.version() }.into())
    }
}
