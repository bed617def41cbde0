//! Persist: the audit in memory. Lines are only added; free text can be blanked.

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;

use super::MemoryStore;
use super::state::State;
use crate::PortResult;
use broker_ports::{Attribution, AuditAction, AuditEntry, AuditRecord, AuditSink};

impl State {
    pub(super) fn history(&self, id: ProvisionedResourceId) -> Vec<AuditRecord> {
        self.audit.iter().filter(|line| line.entry.resource == Some(id)).cloned().collect()
    }

    pub(super) fn scrub(&mut self, id: ProvisionedResourceId, by: &Attribution) -> u64 {
        let mut blanked = 0;
        let mut latest = None;
        for line in self.audit.iter_mut().filter(|line| line.entry.resource == Some(id)) {
            blanked += u64::from(line.entry.event_data.take().is_some());
            latest = Some((line.entry.project, line.entry.new_phase));
        }
        if let Some((project, phase)) = latest {
            let mut entry =
                AuditEntry::new(AuditAction::AuditScrubbed, by.clone()).for_resource(id);
            entry.project = project;
            entry.previous_phase = phase;
            entry.new_phase = phase;
            self.append_audit(entry, None, None);
        }
        blanked
    }
}

#[async_trait]
impl AuditSink for MemoryStore {
    async fn record(&self, entry: &AuditEntry) -> PortResult<()> {
        self.transact(|state| {
            state.append_audit(entry.clone(), None, None);
            Ok(())
        })
    }
}
