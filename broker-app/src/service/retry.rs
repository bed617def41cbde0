//! Retry: a failed resource whose cause is fixed converges again.

use broker_domain::{ProvisionedResource, ProvisionedResourceId};
use broker_ports::{RequestContext, Write, WriteKind};

use super::Service;
use crate::error::Error;

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
        let mut race = self.race(context, self.get(context, id).await?);
        loop {
            let change = race.resource().retry(self.stamp())?;
            let write = Write::by_caller(&change, context.attribution());
            let sent = self.ports.repository.write(WriteKind::Retry, &write);
            if let Some(retried) = race.attempt(&change, sent).await? {
                return Ok(retried);
            }
        }
    }
}
