//! Retry: a failed resource whose cause is fixed converges again.

use broker_domain::{ProvisionedResource, ProvisionedResourceId};
use broker_ports::{RequestContext, WriteKind};

use super::Service;
use crate::error::Error;
use crate::telemetry::trace;

impl Service {
    /// Sends a failed resource on its way again. The next pass decides from the facts: if the composite resource
    /// still says that it failed for good, the resource fails again.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `illegal_transition` in any phase but Failed; `stale_write` if the
    /// resource kept changing; `repository_…`.
    #[tracing::instrument(name = "broker.retry", skip_all, fields(resource = %id, traceparent = trace(context)))]
    pub async fn retry(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Error> {
        let mut race = self.race(context, self.get(context, id).await?);
        loop {
            let change = race.resource().retry(self.stamp())?;
            if let Some(retried) = race.attempt(WriteKind::Retry, &change).await? {
                return Ok(retried);
            }
        }
    }
}
