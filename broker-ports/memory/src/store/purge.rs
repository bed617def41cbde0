//! Persist: removes resources that have been Deleted for long, in memory.

use broker_domain::{Phase, ProvisionedResourceId};

use super::state::{Row, State};
use crate::Answer;
use broker_ports::{Actor, Attribution, AuditAction, AuditEntry, CorrelationId, PurgeRequest};

impl State {
    pub(super) fn purge(&mut self, request: &PurgeRequest) -> Answer<Vec<ProvisionedResourceId>> {
        let by = Attribution::new(Actor::system(), CorrelationId::new("purge")?);
        let gone: Vec<_> = self
            .rows
            .iter()
            .filter(|(id, row)| self.is_over(**id, row, request))
            .map(|(id, _)| *id)
            .take(usize::from(request.limit.get()))
            .collect();
        for id in &gone {
            let Some(row) = self.rows.remove(id) else { continue };
            let project = row.resource.project_id();
            if let Some((request, _)) = row.request {
                self.requests.remove(&(project, request));
            }
            let entry = AuditEntry::new(AuditAction::Purged, by.clone())
                .in_project(project)
                .about(*id)
                .in_phase(row.resource.phase());
            self.append_audit(entry, None, None);
        }
        Ok(gone)
    }

    /// No write changes a Deleted row, so its last change was the deletion.
    fn is_over(&self, id: ProvisionedResourceId, row: &Row, request: &PurgeRequest) -> bool {
        row.resource.phase() == Phase::Deleted
            && self.now - row.resource.updated_at() > request.retention
            && self.waiting.range((id, 0)..=(id, u64::MAX)).next().is_none()
    }
}
