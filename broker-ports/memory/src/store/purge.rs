//! Persist: removes resources that were deleted long ago, in memory.

use broker_domain::{Phase, ProvisionedResourceId};

use super::state::{Row, State};
use crate::PortResult;
use broker_ports::{Actor, Attribution, AuditAction, AuditEntry, CorrelationId, PurgeRequest};

impl State {
    pub(super) fn purge(
        &mut self,
        request: &PurgeRequest,
    ) -> PortResult<Vec<ProvisionedResourceId>> {
        let by = Attribution::new(Actor::system(), CorrelationId::new("purge")?);
        let purged: Vec<_> = self
            .rows
            .iter()
            .filter(|(id, row)| self.is_purgeable(**id, row, request))
            .map(|(id, _)| *id)
            .take(usize::from(request.limit.get()))
            .collect();
        for id in &purged {
            let Some(row) = self.rows.remove(id) else { continue };
            let project = row.resource.project_id();
            if let Some((request, _)) = row.request {
                self.requests.remove(&(project, request));
            }
            let entry = AuditEntry::new(AuditAction::Purged, by.clone())
                .in_project(project)
                .for_resource(*id)
                .in_phase(row.resource.phase());
            self.append_audit(entry, None, None);
        }
        Ok(purged)
    }

    /// No write changes a Deleted row, so its last change was the deletion.
    fn is_purgeable(&self, id: ProvisionedResourceId, row: &Row, request: &PurgeRequest) -> bool {
        row.resource.phase() == Phase::Deleted
            && self.now - row.resource.updated_at() > request.retention
            && self.waiting.range((id, 0)..=(id, u64::MAX)).next().is_none()
    }
}
