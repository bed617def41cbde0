//! Persist: writes of the aggregate in memory. Row, event, audit line and schedule change together.

use std::ops::ControlFlow;

use async_trait::async_trait;
use broker_domain::{
    BootstrapTokenId, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId,
};

use super::MemoryStore;
use super::state::{Row, ScheduleState, State, id_taken};
use crate::PortResult;
use broker_ports::{
    Admitted, Attribution, AuditRecord, Created, DeletionMark, ListPage, ListQuery, PurgeRequest,
    Replaced, Replacement, Repository, SharedConfig, SharedConfigRef, StoredRequest, SweepPage,
    SweepQuery, Write, WriteKind, Written,
};

/// A write that passed all checks.
struct Accepted {
    stored_phase: Phase,
    resource: ProvisionedResource,
}

impl State {
    fn create(&mut self, admitted: &Admitted) -> PortResult<Created> {
        Ok(match self.check_creation(admitted)? {
            ControlFlow::Break(created) => created,
            ControlFlow::Continue(resource) => {
                self.check_shared_config(admitted)?;
                self.insert(admitted, resource);
                Created::Stored
            }
        })
    }

    /// All checks run before the first change, because there is no rollback.
    fn replace(&mut self, replacement: &Replacement) -> PortResult<Replaced> {
        let admitted = replacement.admitted();
        let resource = match self.check_creation(admitted)? {
            ControlFlow::Break(created) => return Ok(Replaced::Created(created)),
            ControlFlow::Continue(resource) => resource,
        };
        let deletion = match replacement.deletion() {
            Some(write) => match self.check_write(WriteKind::DeletionIntent, &write)? {
                ControlFlow::Break(_lost) => return Ok(Replaced::Stale),
                ControlFlow::Continue(accepted) => Some((write, accepted)),
            },
            None => None,
        };
        self.check_shared_config(admitted)?;
        self.insert(admitted, resource);
        if let Some((write, accepted)) = deletion {
            self.apply(WriteKind::DeletionIntent, &write, accepted);
        }
        self.append_audit(replacement.audit(), None, None);
        Ok(Replaced::Created(Created::Stored))
    }

    /// The new resource to store, or the result of a used request id.
    fn check_creation(
        &self,
        admitted: &Admitted,
    ) -> PortResult<ControlFlow<Created, ProvisionedResource>> {
        let change = admitted.change();
        let (id, project) = (change.resource().id(), change.resource().project_id());
        if let Some((request, hash)) = admitted.request()
            && let Some(first) = self.row_of_request(project, request)
        {
            return Ok(ControlFlow::Break(match &first.request {
                Some((_, stored)) if stored == hash => {
                    Created::Replayed(Box::new(first.resource.clone()))
                }
                Some(_) | None => Created::Conflict,
            }));
        }
        if let Some(references) = &self.references {
            references.check(change.resource())?;
        }
        if self.rows.contains_key(&id) {
            return Err(id_taken("id", id));
        }
        self.check_event(change.event())?;
        Ok(ControlFlow::Continue(self.stamped(change.resource())?))
    }

    /// Stores a new resource that passed all checks.
    fn insert(&mut self, admitted: &Admitted, resource: ProvisionedResource) {
        let (id, project) = (resource.id(), resource.project_id());
        let request = admitted.request().cloned();
        if let Some((request, _)) = &request {
            self.requests.insert((project, request.clone()), id);
        }
        self.append_audit(admitted.audit(), Some(resource.version()), None);
        self.use_shared_config(admitted);
        self.rows.insert(
            id,
            Row { resource, request, schedule: ScheduleState::due(self.now), corrupt: false },
        );
        if let Some(event) = admitted.change().event() {
            self.append_event(event, admitted.attribution(), None);
        }
        self.listeners.notify(id);
    }

    fn write(&mut self, kind: WriteKind, write: &Write<'_>) -> PortResult<Written> {
        Ok(match self.check_write(kind, write)? {
            ControlFlow::Break(lost) => lost,
            ControlFlow::Continue(accepted) => {
                self.apply(kind, write, accepted);
                Written::Committed
            }
        })
    }

    /// The accepted write, or why it lost against another writer.
    fn check_write(
        &self,
        kind: WriteKind,
        write: &Write<'_>,
    ) -> PortResult<ControlFlow<Written, Accepted>> {
        let change = write.change;
        let Some(row) = self.rows.get(&change.resource().id()) else {
            return Ok(ControlFlow::Break(Written::Stale));
        };
        if write.epoch.is_some_and(|epoch| epoch != row.schedule.epoch) {
            return Ok(ControlFlow::Break(Written::LeaseLost));
        }
        if row.resource.version() != change.expected_version() {
            return Ok(ControlFlow::Break(Written::Stale));
        }
        let stored_phase = row.resource.phase();
        kind.check(stored_phase, change)?;
        self.check_event(change.event())?;
        let resource = self.stamped(change.resource())?;
        Ok(ControlFlow::Continue(Accepted { stored_phase, resource }))
    }

    /// Stores a change that passed all checks.
    fn apply(&mut self, kind: WriteKind, write: &Write<'_>, accepted: Accepted) {
        let Accepted { stored_phase, resource } = accepted;
        let (now, id) = (self.now, resource.id());
        self.append_audit(kind.audit(stored_phase, write), Some(resource.version()), write.epoch);
        if let Some(event) = write.change.event() {
            self.append_event(event, write.by, write.epoch);
        }
        self.leave_shared_config(&resource);
        if let Some(row) = self.rows.get_mut(&id) {
            if resource.phase() != stored_phase {
                row.schedule.reset(now);
            }
            row.resource = resource;
        }
        if matches!(kind, WriteKind::DeletionIntent | WriteKind::Retry) {
            self.listeners.notify(id);
        }
    }

    fn row_of_request(&self, project: ProjectId, request: &RequestId) -> Option<&Row> {
        self.rows.get(self.requests.get(&(project, request.clone()))?)
    }
}

#[async_trait]
impl Repository for MemoryStore {
    async fn create(&self, admitted: &Admitted) -> PortResult<Created> {
        self.transact(|state| state.create(admitted))
    }

    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> PortResult<Option<ProvisionedResource>> {
        self.transact(|state| state.rows.get(&id).map(Row::read).transpose())
    }

    async fn get_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> PortResult<Option<ProvisionedResource>> {
        self.transact(|state| {
            let row = state.rows.get(&id).filter(|row| row.resource.project_id() == project);
            row.map(Row::read).transpose()
        })
    }

    async fn get_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> PortResult<Option<StoredRequest>> {
        self.transact(|state| {
            let Some(row) = state.row_of_request(project, request) else { return Ok(None) };
            let Some((_, hash)) = &row.request else { return Ok(None) };
            Ok(Some(StoredRequest::new(row.read()?, *hash)))
        })
    }

    async fn get_by_token(
        &self,
        token: BootstrapTokenId,
    ) -> PortResult<Option<ProvisionedResource>> {
        self.transact(|state| {
            let has_token = |row: &&Row| row.resource.bootstrap_token_id() == Some(token);
            state.rows.values().find(has_token).map(Row::read).transpose()
        })
    }

    async fn list(&self, query: &ListQuery) -> PortResult<ListPage> {
        self.transact(|state| Ok(state.list(query)))
    }

    async fn sweep_page(&self, query: &SweepQuery) -> PortResult<SweepPage> {
        self.transact(|state| Ok(state.sweep_page(query)))
    }

    async fn write(&self, kind: WriteKind, write: &Write<'_>) -> PortResult<Written> {
        self.transact(|state| state.write(kind, write))
    }

    async fn replace(&self, replacement: &Replacement) -> PortResult<Replaced> {
        self.transact(|state| state.replace(replacement))
    }

    async fn shared_config(&self, user: ProvisionedResourceId) -> PortResult<Option<SharedConfig>> {
        self.transact(|state| Ok(state.shared_config(user)))
    }

    async fn shared_configs(&self, names: &[SharedConfigRef]) -> PortResult<Vec<SharedConfig>> {
        self.transact(|state| Ok(state.shared_configs_of(names)))
    }

    async fn mark_shared_config(
        &self,
        name: &SharedConfigRef,
        current: Option<DeletionMark>,
    ) -> PortResult<Option<DeletionMark>> {
        self.transact(|state| Ok(state.mark_shared_config(name, current)))
    }

    async fn clear_shared_config(
        &self,
        name: &SharedConfigRef,
        mark: DeletionMark,
    ) -> PortResult<()> {
        self.transact(|state| {
            state.clear_shared_config(name, mark);
            Ok(())
        })
    }

    async fn history(&self, id: ProvisionedResourceId) -> PortResult<Vec<AuditRecord>> {
        self.transact(|state| Ok(state.history(id)))
    }

    async fn scrub_audit(&self, id: ProvisionedResourceId, by: &Attribution) -> PortResult<u64> {
        self.transact(|state| Ok(state.scrub(id, by)))
    }

    async fn purge_deleted(
        &self,
        request: &PurgeRequest,
    ) -> PortResult<Vec<ProvisionedResourceId>> {
        self.transact(|state| state.purge(request))
    }
}
