//! Retry: a failed resource converges again after its cause is fixed.

use broker_domain::{ProvisionedResource, ProvisionedResourceId};
use broker_ports::{RequestContext, WriteKind};

use super::Service;
use crate::error::Error;
use crate::telemetry::traceparent;

impl Service {
    /// Makes a failed resource converge again. If the composite resource still reports a terminal failure, the next pass
    /// fails the resource again.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `illegal_transition` in any phase but Failed; `stale_write` if other
    /// writes won every attempt; `repository_…`.
    #[tracing::instrument(name = "broker.retry", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn retry(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Error> {
        let mut retry = self.write_retry(context, self.get(context, id).await?);
        loop {
            let change = retry.resource().retry(self.stamp())?;
            if let Some(retried) = retry.attempt(WriteKind::Retry, &change).await? {
                return Ok(retried);
            }
        }
    }
}
