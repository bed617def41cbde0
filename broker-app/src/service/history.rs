//! What was done to a resource, and by whom.

use broker_domain::{NotFound, ProvisionedResourceId};
use broker_ports::{AuditRecord, RequestContext};

use super::Service;
use crate::error::Error;

impl Service {
    /// The audit of a resource, oldest line first. It outlives the resource, so this answers after a purge, too.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found` when there never was one within the scope; `repository_…`.
    pub async fn history(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<Vec<AuditRecord>, Error> {
        let mut lines = self.ports.repository.read(|it| it.history(id)).await?;
        // The row may be purged, so the lines say which Project it was of.
        lines.retain(|line| {
            line.entry.project.is_some_and(|project| context.scope().covers(project))
        });
        if lines.is_empty() { Err(id.not_found().into()) } else { Ok(lines) }
    }
}
