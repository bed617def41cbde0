//! The audit history of a resource.

use broker_domain::{NotFound, ProvisionedResourceId};
use broker_ports::{AuditRecord, RequestContext};

use super::Service;
use crate::error::Error;
use crate::telemetry::traceparent;

impl Service {
    /// The audit lines of a resource, oldest first. They outlive the resource, also after a purge.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found` when the scope never had a resource of this id; `repository_…`.
    #[tracing::instrument(name = "broker.history", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn history(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<Vec<AuditRecord>, Error> {
        let mut lines = self.ports.repository.read(|it| it.history(id)).await?;
        // The row may be purged, so the Project comes from the lines.
        lines.retain(|line| {
            line.entry.project.is_some_and(|project| context.scope().covers(project))
        });
        if lines.is_empty() { Err(id.not_found().into()) } else { Ok(lines) }
    }
}
