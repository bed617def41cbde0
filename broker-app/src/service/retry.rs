//! Retry: a failed resource converges again after its cause is fixed.

use broker_domain::{ProvisionedResource, ProvisionedResourceId};
use broker_ports::{RequestContext, WriteKind};

use super::Service;
use crate::error::Error;
use crate::telemetry::trace;

impl Service {
    /// Makes a failed resource converge again. The next pass decides from the facts: if the composite resource still
    /// reports a terminal failure, the resource fails again.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `illegal_transition` in any phase but Failed; `stale_write` if the resource
    /// kept changing; `repository_…`.
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
