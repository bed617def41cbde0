//! Stores that look first and lock later, to see that the checker finds them out.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a race concerns a few methods; everywhere else a store with it behaves"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{
    ClusterId, Declaration, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId,
    RequestId, Version,
};
use broker_ports::memory::MemoryStore;
use broker_ports::testing::builders::admitted_as;
use broker_ports::{
    Acknowledged, Admitted, Attribution, AuditRecord, Backlog, Brake, BrakeRelease, ClaimEvents,
    ClaimRequest, ClaimTarget, ClaimedEvent, Created, DeliveryFailure, Due, EventClaim, EventsOf,
    Lane, Lease, ListPage, ListQuery, Loss, Outbox, PageSize, PassOutcome, Permit, PermitRequest,
    PortError, PurgeRequest, Released, Replaced, Replacement, Repository, Resume, Schedule,
    ScheduleEntry, SetAside, SetAsideOf, StoredRequest, SweepPage, SweepQuery, Wakeups, Write,
    WriteKind, Written,
};
use tokio::task::yield_now;

/// What a store does outside of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Race {
    /// It compares the version, lets others in, and writes.
    Version,
    /// It looks whether somebody holds the lease, lets others in, and hands it out.
    Lease,
    /// It looks for the request id, lets others in, and stores.
    RequestId,
    /// It answers a second look from what it remembers of the first.
    CachedRead,
    /// It compares the version of what is to be put on record, lets others in, and writes.
    Record,
    /// It looks what is due, lets others in, and hands all of it out.
    Due,
    /// It reads a page row by row, and lets others in between.
    Sweep,
    /// It looks what is Deleted, lets others in, and says that all of it that is gone went now.
    Purge,
    /// It removes events a second time, and counts the first only.
    EventPurge,
}

impl Race {
    pub(super) const ALL: [Self; 9] = [
        Self::Version,
        Self::Lease,
        Self::RequestId,
        Self::CachedRead,
        Self::Record,
        Self::Due,
        Self::Sweep,
        Self::Purge,
        Self::EventPurge,
    ];
}

pub(super) struct Racy {
    store: MemoryStore,
    race: Race,
    remembered: Mutex<BTreeMap<RequestId, StoredRequest>>,
}

impl Racy {
    pub(super) fn new(store: MemoryStore, race: Race) -> Self {
        Self { store, race, remembered: Mutex::default() }
    }

    async fn write_late(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        let wanted = write.change.resource();
        let seen = self.store.get_by_id(wanted.id()).await?;
        if seen.is_none_or(|seen| seen.version() != write.change.expected_version()) {
            return Ok(Written::Stale);
        }
        yield_now().await;
        let written = self.write(kind, write).await?;
        // By now the version is another one. This store does not look again.
        Ok(if written == Written::Stale { Written::Committed } else { written })
    }

    async fn write(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        match kind {
            WriteKind::Phase => self.store.update_phase(write).await,
            WriteKind::Token => self.store.record_token(write).await,
            WriteKind::Closed => self.store.record_closed(write).await,
            WriteKind::Substrate => self.store.record_substrate(write).await,
            WriteKind::DeletionIntent => self.store.record_deletion_intent(write).await,
            WriteKind::Retry => self.store.record_retry(write).await,
        }
    }

    async fn record(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        match self.race {
            Race::Record => self.write_late(kind, write).await,
            _ => self.write(kind, write).await,
        }
    }

    async fn claim_due_late(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        let ClaimTarget::Due { lane, .. } = request.target else {
            return self.store.claim(request).await;
        };
        let page = self.store.sweep_page(&SweepQuery::new(PageSize::MAX)).await?;
        let teardown = lane == Lane::Teardown;
        let due = page.rows.into_iter().filter(|row| {
            let free = row.lease_until.is_none() && !row.paused;
            free && row.due_at.is_some() && row.phase.is_teardown() == teardown
        });
        let due: Vec<_> = due.map(|row| row.id).collect();
        let mut entries = Vec::new();
        for id in due {
            entries.extend(self.store.entry(id).await?.map(|entry| (id, entry)));
        }
        yield_now().await;
        let mut leases = self.store.claim(request).await?;
        for (id, entry) in entries {
            let missed = leases.iter().all(|lease| lease.resource != id);
            // Somebody else has it by now. This store does not look again.
            let taken = self.store.entry(id).await?.is_some_and(|now| now.lease.is_some());
            if missed && taken {
                let until = entry.now + request.lease_for;
                leases.push(Lease::new(id, entry.epoch.next(), request.worker.clone(), until));
            }
        }
        Ok(leases)
    }

    async fn sweep_late(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        let mut one = SweepQuery::new(PageSize::new(1)?);
        one.after = query.after;
        let mut page = self.store.sweep_page(&one).await?;
        while let Some(next) = page.next {
            yield_now().await;
            one = one.after(next);
            let more = self.store.sweep_page(&one).await?;
            page.rows.extend(more.rows);
            (page.next, page.now) = (more.next, more.now);
        }
        Ok(page)
    }

    async fn purge_late(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        let query = ListQuery::new(PageSize::MAX).in_phase(Phase::Deleted);
        let seen = self.store.list(&query).await?.resources;
        yield_now().await;
        let mut purged = self.store.purge_deleted(request).await?;
        for resource in seen {
            let id = resource.id();
            if !purged.contains(&id) && self.store.get_by_id(id).await?.is_none() {
                purged.push(id);
            }
        }
        Ok(purged)
    }

    async fn claim_late(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        let ClaimTarget::One(id) = request.target else { return self.store.claim(request).await };
        let entry = self.store.entry(id).await?;
        let Some(entry) = entry.filter(|entry| entry.lease.is_none() && !entry.paused) else {
            return Ok(Vec::new());
        };
        yield_now().await;
        let leases = self.store.claim(request).await?;
        if !leases.is_empty() {
            return Ok(leases);
        }
        let until = entry.now + request.lease_for;
        Ok(vec![Lease::new(id, entry.epoch.next(), request.worker.clone(), until)])
    }

    async fn create_late(&self, admitted: &Admitted) -> Result<Created, PortError> {
        let resource = admitted.change().resource();
        if let Some((request, _)) = admitted.request()
            && self.store.get_by_request(resource.project_id(), request).await?.is_some()
        {
            return self.store.create(admitted).await;
        }
        yield_now().await;
        let created = self.store.create(admitted).await?;
        if created == Created::Stored {
            return Ok(created);
        }
        let nameless = Declaration::new(
            resource.project_id(),
            resource.resource_id(),
            resource.blueprint_version_id(),
            resource.cloud_credential_id(),
        );
        self.store.create(&admitted_as(admitted.change(), &nameless)).await
    }
}

#[async_trait]
impl Repository for Racy {
    async fn create(&self, admitted: &Admitted) -> Result<Created, PortError> {
        match self.race {
            Race::RequestId => self.create_late(admitted).await,
            _ => self.store.create(admitted).await,
        }
    }

    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.store.get_by_id(id).await
    }

    async fn get_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.store.get_in_project(project, id).await
    }

    async fn get_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError> {
        let found = self.store.get_by_request(project, request).await?;
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match (self.race, found) {
            (Race::CachedRead, Some(found)) => {
                Some(remembered.entry(request.clone()).or_insert(found).clone())
            }
            (_, found) => found,
        })
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        self.store.list(query).await
    }

    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        match self.race {
            Race::Sweep => self.sweep_late(query).await,
            _ => self.store.sweep_page(query).await,
        }
    }

    async fn update_phase(&self, write: &Write<'_>) -> Result<Written, PortError> {
        match self.race {
            Race::Version => self.write_late(WriteKind::Phase, write).await,
            _ => self.store.update_phase(write).await,
        }
    }

    async fn record_token(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.record(WriteKind::Token, write).await
    }

    async fn record_closed(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.record(WriteKind::Closed, write).await
    }

    async fn record_substrate(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.record(WriteKind::Substrate, write).await
    }

    async fn record_deletion_intent(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.store.record_deletion_intent(write).await
    }

    async fn record_retry(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.store.record_retry(write).await
    }

    async fn replace(&self, replacement: &Replacement) -> Result<Replaced, PortError> {
        self.store.replace(replacement).await
    }

    async fn history(&self, id: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError> {
        self.store.history(id).await
    }

    async fn scrub_audit(
        &self,
        id: ProvisionedResourceId,
        by: &Attribution,
    ) -> Result<u64, PortError> {
        self.store.scrub_audit(id, by).await
    }

    async fn purge_deleted(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        match self.race {
            Race::Purge => self.purge_late(request).await,
            _ => self.store.purge_deleted(request).await,
        }
    }
}

#[async_trait]
impl Schedule for Racy {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        match self.race {
            Race::Lease => self.claim_late(request).await,
            Race::Due => self.claim_due_late(request).await,
            _ => self.store.claim(request).await,
        }
    }

    async fn release(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Result<Released, PortError> {
        self.store.release(lease, seen, outcome).await
    }

    async fn schedule(&self, id: ProvisionedResourceId, due: Due) -> Result<bool, PortError> {
        self.store.schedule(id, due).await
    }

    async fn entry(&self, id: ProvisionedResourceId) -> Result<Option<ScheduleEntry>, PortError> {
        self.store.entry(id).await
    }

    async fn set_paused(
        &self,
        id: ProvisionedResourceId,
        paused: bool,
        by: &Attribution,
    ) -> Result<bool, PortError> {
        self.store.set_paused(id, paused, by).await
    }

    async fn brakes(&self, cluster: &ClusterId) -> Result<Vec<Brake>, PortError> {
        self.store.brakes(cluster).await
    }

    async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: &Brake,
        by: &Attribution,
    ) -> Result<(), PortError> {
        self.store.set_brake(cluster, brake, by).await
    }

    async fn release_brake(&self, release: &BrakeRelease) -> Result<bool, PortError> {
        self.store.release_brake(release).await
    }

    async fn permit(&self, request: &PermitRequest) -> Result<Permit, PortError> {
        self.store.permit(request).await
    }

    async fn accepted_losses(&self, cluster: &ClusterId) -> Result<BTreeSet<Loss>, PortError> {
        self.store.accepted_losses(cluster).await
    }

    async fn wakeups(&self) -> Result<Wakeups, PortError> {
        self.store.wakeups().await
    }
}

#[async_trait]
impl Outbox for Racy {
    async fn claim_events(&self, request: &ClaimEvents) -> Result<Vec<ClaimedEvent>, PortError> {
        self.store.claim_events(request).await
    }

    async fn acknowledge_event(&self, claim: &EventClaim) -> Result<Acknowledged, PortError> {
        self.store.acknowledge_event(claim).await
    }

    async fn delay_event(
        &self,
        claim: &EventClaim,
        wait: Duration,
        failure: DeliveryFailure,
    ) -> Result<Acknowledged, PortError> {
        self.store.delay_event(claim, wait, failure).await
    }

    async fn set_aside_event(
        &self,
        claim: &EventClaim,
        reason: &str,
    ) -> Result<Acknowledged, PortError> {
        self.store.set_aside_event(claim, reason).await
    }

    async fn resume_events(
        &self,
        id: ProvisionedResourceId,
        how: Resume,
        by: &Attribution,
    ) -> Result<Option<SetAside>, PortError> {
        self.store.resume_events(id, how, by).await
    }

    async fn purge_events(&self, retention: Duration, limit: PageSize) -> Result<u64, PortError> {
        let purged = self.store.purge_events(retention, limit).await?;
        if self.race == Race::EventPurge {
            yield_now().await;
            self.store.purge_events(retention, limit).await?;
        }
        Ok(purged)
    }

    async fn backlog(&self) -> Result<Backlog, PortError> {
        self.store.backlog().await
    }

    async fn set_aside_events(
        &self,
        of: EventsOf,
        limit: PageSize,
    ) -> Result<Vec<SetAsideOf>, PortError> {
        self.store.set_aside_events(of, limit).await
    }
}
