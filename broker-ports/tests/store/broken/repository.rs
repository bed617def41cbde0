//! Repositories that break one promise each.

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{
    Change, Declaration, Error, Parameters, Phase, ProjectId, ProvisionedResource,
    ProvisionedResourceId, RequestId, Substrate,
};
use broker_ports::testing::builders::{admitted_as, attribution, id, resource, worker};
use broker_ports::{
    Admitted, Attribution, AuditAction, AuditEntry, AuditRecord, AuditSink, ClaimedEvent,
    Clock as _, Created, EventClaim, FailureClass, LeaseEpoch, ListPage, ListQuery, Outbox,
    PageSize, PassOutcome, PortError, PurgeRequest, Replaced, Replacement, Repository, Resume,
    Schedule, ScheduleEntry, StoredRequest, SweepPage, SweepQuery, Write, WriteKind, Written, wire,
};
use futures_util::FutureExt as _;
use time::OffsetDateTime;

use super::Broken;
use super::flaws::Flaw;
use crate::half_way::half_way;

impl Broken {
    async fn correct(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        let store = &self.world.store;
        match kind {
            WriteKind::Phase => store.update_phase(write).await,
            WriteKind::Token => store.record_token(write).await,
            WriteKind::Closed => store.record_closed(write).await,
            WriteKind::Substrate => store.record_substrate(write).await,
            WriteKind::DeletionIntent => store.record_deletion_intent(write).await,
            WriteKind::Retry => store.record_retry(write).await,
        }
    }

    /// The epoch under which a flawed store lets a worker write.
    async fn epoch(&self, write: &Write<'_>) -> Result<Option<LeaseEpoch>, PortError> {
        if !matches!(self.flaw, Flaw::IgnoresTheEpoch | Flaw::TakesAnyNewerEpoch) {
            return Ok(write.epoch);
        }
        let entry = self.world.store.entry(write.change.resource().id()).await?;
        Ok(match (self.flaw, write.epoch, entry) {
            (Flaw::IgnoresTheEpoch, Some(_), Some(entry)) => Some(entry.epoch),
            (_, Some(epoch), Some(entry)) if epoch > entry.epoch => Some(entry.epoch),
            (_, epoch, _) => epoch,
        })
    }

    async fn flawed_write(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        if self.refuses_because_of_its_lease(kind, write).await? {
            return Ok(Written::LeaseLost);
        }
        let epoch = self.epoch(write).await?;
        let mut write = *write;
        write.epoch = epoch;
        match self.correct(kind, &write).await {
            Ok(Written::Stale) => self.after_stale(kind, &write).await,
            Ok(Written::Committed) if self.flaw == Flaw::DeletionIsNotDue => {
                self.put_off(write.change.resource()).await?;
                Ok(Written::Committed)
            }
            Ok(written) => Ok(written),
            Err(error) if self.overlooks(&error) => Ok(Written::Committed),
            Err(error) => Err(error),
        }
    }

    async fn refuses_because_of_its_lease(
        &self,
        kind: WriteKind,
        write: &Write<'_>,
    ) -> Result<bool, PortError> {
        let entry = match self.flaw {
            Flaw::DeletionWaitsForTheLease if kind == WriteKind::DeletionIntent => {
                self.world.store.entry(write.change.resource().id()).await?
            }
            Flaw::RefusesLeasesThatAreOver if write.epoch.is_some() => {
                let entry = self.world.store.entry(write.change.resource().id()).await?;
                let over = |entry: &ScheduleEntry| {
                    entry.lease.as_ref().is_some_and(|(_, until)| *until <= entry.now)
                };
                entry.filter(over)
            }
            _ => None,
        };
        Ok(entry.is_some_and(|entry| entry.lease.is_some()))
    }

    fn overlooks(&self, error: &PortError) -> bool {
        match (self.flaw, error.domain()) {
            (Flaw::AcceptsIllegalEdges, Some(Error::IllegalTransition { .. })) => true,
            (Flaw::AcceptsOtherKinds, Some(Error::InvalidInput { field, .. })) => field == "change",
            (Flaw::TakesAnEventIdTwice, Some(_)) => names(error, "event_id"),
            (Flaw::CommitsInAnOutage, None) => error.class() == FailureClass::Transient,
            _ => false,
        }
    }

    async fn after_stale(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        let id = write.change.resource().id();
        match self.flaw {
            Flaw::DropsTheVersionCheck => return self.rebased(kind, write).await,
            Flaw::TellsLosersThatTheyWon => return Ok(Written::Committed),
            Flaw::WritesHalfOfAStaleChange => {
                let entry = AuditEntry::new(AuditAction::PhaseChanged, attribution()).about(id);
                self.world.store.record(&entry).await?;
            }
            Flaw::KeepsTheLosersEvent => {
                let ghost = write.change.event().map(|event| {
                    ClaimedEvent::new(
                        EventClaim::new(event.id(), worker("ghost"), 1),
                        1,
                        id,
                        event.sequence(),
                        event.event_type(),
                        event.occurred_at(),
                        wire::encode(event),
                    )
                });
                self.note(|notes| notes.ghosts.extend(ghost));
            }
            _ => {}
        }
        Ok(Written::Stale)
    }

    /// A token is recorded again, as if that had been decided on the version that is stored now.
    async fn rebased(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        let wanted = write.change.resource();
        let stored = self.world.store.get_by_id(wanted.id()).await?;
        let (WriteKind::Token, Some(stored), Some(token)) =
            (kind, stored, wanted.bootstrap_token_id())
        else {
            return Ok(Written::Stale);
        };
        let change = stored.record_token(token, wanted.token_ordinal(), wanted.updated_at())?;
        let mut write = *write;
        write.change = &change;
        self.correct(kind, &write).await
    }

    /// The audit line of a change that is not made.
    fn audit_alone(&self, action: AuditAction, change: &Change) {
        let entry = AuditEntry::new(action, attribution()).about(change.resource().id());
        let _ = self.world.store.record(&entry).now_or_never();
    }

    async fn put_off(&self, resource: &ProvisionedResource) -> Result<(), PortError> {
        if resource.phase() != Phase::Deregistering {
            return Ok(());
        }
        let lease = super::schedule::by_name(resource.id());
        for lease in self.world.store.claim(&lease).await? {
            let outcome = PassOutcome::Succeeded { due_in: Some(Duration::from_hours(1)) };
            self.world.store.release(&lease, resource.version(), &outcome).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Repository for Broken {
    async fn create(&self, admitted: &Admitted) -> Result<Created, PortError> {
        if self.flaw == Flaw::CreatesHalfWhenDropped {
            half_way(|| self.audit_alone(AuditAction::Declared, admitted.change())).await;
        }
        let resource = admitted.change().resource();
        match self.flaw {
            Flaw::StoresEveryRequest => {
                let nameless = admitted_as(admitted.change(), &nameless(admitted));
                return self.world.store.create(&nameless).await;
            }
            Flaw::BelievesEveryReference => self.world.store.know(&nameless(admitted)),
            Flaw::ReplaysWithoutARequestId => {
                let everything = ListQuery::new(PageSize::MAX);
                let rows = self.world.store.list(&everything).await?.resources;
                let like = rows.into_iter().find(|row| row.resource_id() == resource.resource_id());
                if let Some(first) = like {
                    return Ok(Created::Replayed(Box::new(first)));
                }
            }
            Flaw::PurgesTheRowAlone => {
                let purged = |id| self.note(|notes| notes.requests.contains(id));
                if admitted.request().is_some_and(|(request, _)| purged(request)) {
                    return Ok(Created::Conflict);
                }
            }
            _ => {}
        }
        let created = self.world.store.create(admitted).await;
        match (self.flaw, created) {
            (Flaw::ReplaysOnConflict, Ok(Created::Conflict)) => self.first(admitted).await,
            (Flaw::TakesAnIdTwice, Err(error)) if names(&error, "id") => Ok(Created::Stored),
            (Flaw::TakesAnEventIdTwice, Err(error)) if names(&error, "event_id") => {
                Ok(Created::Stored)
            }
            (_, created) => created,
        }
    }

    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        let found = self.world.store.get_by_id(id).await;
        match self.flaw {
            Flaw::InventsAbsence => found.or(Ok(None)),
            Flaw::UnreadableRowIsAbsent if self.note(|notes| notes.spoilt) => found.or(Ok(None)),
            Flaw::UnreadableRowIsNobodys => {
                found.map_err(|_| PortError::rejected("a row breaks the domain's rules"))
            }
            Flaw::OneUnreadableRowSpoilsAll if self.note(|notes| notes.spoilt) => {
                Err(PortError::rejected("the table cannot be read"))
            }
            Flaw::InventsAResource => Ok(found?.or_else(|| Some(resource().build()))),
            Flaw::RemembersWhatWasPurged => {
                Ok(self.note(|notes| notes.rows.get(&id).cloned()).or(found?))
            }
            _ => found?.map(|found| self.misread(&found)).transpose(),
        }
    }

    async fn get_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        let in_project = |row: &ProvisionedResource| row.project_id() == project;
        match self.flaw {
            Flaw::ReadsInEveryProject => self.get_by_id(id).await,
            // Right where the row can be read, and wrong where it cannot.
            Flaw::ReadsBeforeItLooksAtTheProject => {
                Ok(self.get_by_id(id).await?.filter(in_project))
            }
            _ => self.world.store.get_in_project(project, id).await,
        }
    }

    async fn get_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError> {
        let found = self.world.store.get_by_request(project, request).await?;
        Ok(match self.flaw {
            Flaw::LosesTheRequestId => None,
            Flaw::SharesRequestIdsBetweenProjects if found.is_none() => {
                self.world.store.get_by_request(id(1), request).await?
            }
            _ => found,
        })
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        self.flawed_list(query).await
    }

    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        self.flawed_sweep(query).await
    }

    async fn update_phase(&self, write: &Write<'_>) -> Result<Written, PortError> {
        if self.flaw == Flaw::WritesHalfWhenDropped {
            half_way(|| self.audit_alone(AuditAction::PhaseChanged, write.change)).await;
        }
        self.flawed_write(WriteKind::Phase, write).await
    }

    async fn record_token(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.flawed_write(WriteKind::Token, write).await
    }

    async fn record_closed(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.flawed_write(WriteKind::Closed, write).await
    }

    async fn record_substrate(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.flawed_write(WriteKind::Substrate, write).await
    }

    async fn record_deletion_intent(&self, write: &Write<'_>) -> Result<Written, PortError> {
        if self.flaw == Flaw::DeletesHalfWhenDropped {
            half_way(|| self.audit_alone(AuditAction::DeletionRequested, write.change)).await;
        }
        self.flawed_write(WriteKind::DeletionIntent, write).await
    }

    async fn record_retry(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.flawed_write(WriteKind::Retry, write).await
    }

    async fn replace(&self, replacement: &Replacement) -> Result<Replaced, PortError> {
        self.flawed_replace(replacement).await
    }

    async fn history(&self, id: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError> {
        self.history_of(id).await
    }

    async fn scrub_audit(
        &self,
        id: ProvisionedResourceId,
        by: &Attribution,
    ) -> Result<u64, PortError> {
        if self.flaw == Flaw::ScrubRemovesLines {
            let lines = self.world.store.history(id).await?;
            let written = lines.iter().filter(|line| line.entry.event_data.is_some());
            let written: Vec<_> = written.map(|line| line.sequence).collect();
            self.note(|notes| notes.scrubbed.extend(written));
        }
        if self.flaw == Flaw::ScrubsNothingWithALine {
            let entry = AuditEntry::new(AuditAction::AuditScrubbed, by.clone()).about(id);
            self.world.store.record(&entry).await?;
        }
        self.world.store.scrub_audit(id, by).await
    }

    async fn purge_deleted(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        let mut request = *request;
        if self.flaw == Flaw::PurgesHalfWhenDropped {
            half_way(|| self.audit_purges_alone()).await;
        }
        match self.flaw {
            Flaw::PurgesWithUnacknowledgedEvents => self.drain().await?,
            Flaw::PurgesAtOnce => self.world.clock.advance(request.retention * 2),
            Flaw::PurgesWithoutLimit => request.limit = PageSize::MAX,
            Flaw::PurgesTheRowAlone => {
                self.note(|notes| notes.requests.extend(RequestId::new("order-1")));
            }
            Flaw::RemembersWhatWasPurged => {
                let rows = self.world.store.list(&ListQuery::new(PageSize::MAX)).await?.resources;
                self.note(|notes| notes.rows.extend(rows.into_iter().map(|row| (row.id(), row))));
            }
            _ => {}
        }
        self.world.store.purge_deleted(&request).await
    }
}

impl Broken {
    async fn flawed_replace(&self, replacement: &Replacement) -> Result<Replaced, PortError> {
        let admitted = replacement.admitted();
        match self.flaw {
            Flaw::ReplacesHalfWhenDropped => {
                half_way(|| self.audit_alone(AuditAction::Declared, admitted.change())).await;
            }
            Flaw::ReplacesWithoutDeletion => {
                return self.world.store.create(admitted).await.map(Replaced::Created);
            }
            Flaw::ReplacesEveryRequest => {
                let nameless = admitted_as(admitted.change(), &nameless(admitted));
                return self.world.store.create(&nameless).await.map(Replaced::Created);
            }
            _ => {}
        }
        let replaced = self.world.store.replace(replacement).await;
        match (self.flaw, replaced) {
            (Flaw::ReplacesAnyVersion, Ok(Replaced::Stale)) => {
                self.world.store.create(admitted).await.map(Replaced::Created)
            }
            (Flaw::ReplacesOnConflict, Ok(Replaced::Created(Created::Conflict))) => {
                self.first(admitted).await.map(Replaced::Created)
            }
            (Flaw::DeletesWhatItDoesNotReplace, Err(error)) => {
                if let Some(deletion) = replacement.deletion() {
                    let _ = self.world.store.record_deletion_intent(&deletion).await?;
                }
                Err(error)
            }
            (Flaw::CommitsInAnOutage, Err(error)) if self.overlooks(&error) => {
                Ok(Replaced::Created(Created::Stored))
            }
            (_, replaced) => replaced,
        }
    }

    /// A purge of which only the lines are left.
    fn audit_purges_alone(&self) {
        let query = ListQuery::new(PageSize::MAX).in_phase(Phase::Deleted);
        let page = self.world.store.list(&query).now_or_never();
        for resource in page.and_then(Result::ok).map(|page| page.resources).unwrap_or_default() {
            let entry = AuditEntry::new(AuditAction::Purged, attribution()).about(resource.id());
            let _ = self.world.store.record(&entry).now_or_never();
        }
    }

    /// Delivers everything to nobody.
    async fn drain(&self) -> Result<(), PortError> {
        let everything = ListQuery::new(PageSize::MAX);
        for resource in self.world.store.list(&everything).await?.resources {
            self.world.store.resume_events(resource.id(), Resume::Skip, &attribution()).await?;
        }
        self.swallow(|_| true).await
    }

    /// The resource that a request id stands for, whatever was asked for this time.
    async fn first(&self, admitted: &Admitted) -> Result<Created, PortError> {
        let project = admitted.change().resource().project_id();
        let Some((request, _)) = admitted.request() else { return Ok(Created::Conflict) };
        let first = self.world.store.get_by_request(project, request).await?;
        Ok(first.map_or(Created::Conflict, |first| Created::Replayed(Box::new(first.resource))))
    }

    /// A row as this store reads it.
    fn misread(&self, resource: &ProvisionedResource) -> Result<ProvisionedResource, PortError> {
        let mut row = resource.snapshot();
        match self.flaw {
            Flaw::KeepsTheCallersTime => row.updated_at = row.phase_entered_at,
            Flaw::StampsBeforeTheDeclaration => {
                row.updated_at = row.updated_at.min(self.world.clock.now());
            }
            Flaw::KeepsMilliseconds => {
                let coarse = |at: OffsetDateTime| at.truncate_to_millisecond();
                row.created_at = coarse(row.created_at);
                row.phase_entered_at = coarse(row.phase_entered_at);
            }
            Flaw::LosesTheParameters => row.parameters = Parameters::default(),
            Flaw::LosesTheSubstrate => row.substrate = Substrate::default(),
            _ => {}
        }
        Ok(ProvisionedResource::hydrate(row)?)
    }
}

/// The same declaration without parameters or request id.
fn nameless(admitted: &Admitted) -> Declaration {
    let resource = admitted.change().resource();
    Declaration::new(
        resource.project_id(),
        resource.resource_id(),
        resource.blueprint_version_id(),
        resource.cloud_credential_id(),
    )
}

/// It was refused because of that field.
fn names(error: &PortError, refused: &str) -> bool {
    matches!(error.domain(), Some(Error::InvalidInput { field, .. }) if field == refused)
}
