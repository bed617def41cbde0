//! Stores that look first and lock later, to see that the checker finds them out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{
    ClusterId, Declaration, ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId,
    Version,
};
use broker_ports::memory::MemoryStore;
use broker_ports::{
    Acknowledged, Admitted, Attribution, AuditRecord, Backlog, Brake, ClaimEvents, ClaimRequest,
    ClaimTarget, ClaimedEvent, Created, Due, EventClaim, Lease, ListPage, ListQuery, Outbox,
    PageSize, PassOutcome, PortError, PurgeRequest, Released, Repository, Resume, Schedule,
    ScheduleEntry, SetAside, StoredRequest, SweepPage, SweepQuery, Wakeups, Write, Written,
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
}

impl Race {
    pub(super) const ALL: [Self; 4] =
        [Self::Version, Self::Lease, Self::RequestId, Self::CachedRead];
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

    async fn write_late(&self, write: &Write<'_>) -> Result<Written, PortError> {
        let wanted = write.change.resource();
        let seen = self.store.get_by_id(wanted.id()).await?;
        if seen.is_none_or(|seen| seen.version() != write.change.expected_version()) {
            return Ok(Written::Stale);
        }
        yield_now().await;
        let written = self.store.update_phase(write).await?;
        // By now the version is another one. This store does not look again.
        Ok(if written == Written::Stale { Written::Committed } else { written })
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
        Ok(vec![Lease {
            resource: id,
            epoch: entry.epoch.next(),
            worker: request.worker.clone(),
            until: entry.now + request.lease_for,
            attempts: 0,
            takeover: false,
        }])
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
        let by = admitted.attribution().clone();
        self.store.create(&Admitted::new(admitted.change().clone(), &nameless, by)).await
    }
}

#[async_trait]
impl Repository for Racy {
    async fn create(&self, admitted: &Admitted) -> Result<Created, PortError> {
        match self.race {
            Race::RequestId => self.create_late(admitted).await,
            Race::Version | Race::Lease | Race::CachedRead => self.store.create(admitted).await,
        }
    }

    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.store.get_by_id(id).await
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
        self.store.sweep_page(query).await
    }

    async fn update_phase(&self, write: &Write<'_>) -> Result<Written, PortError> {
        match self.race {
            Race::Version => self.write_late(write).await,
            Race::Lease | Race::RequestId | Race::CachedRead => {
                self.store.update_phase(write).await
            }
        }
    }

    async fn record_token(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.store.record_token(write).await
    }

    async fn record_closed(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.store.record_closed(write).await
    }

    async fn record_substrate(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.store.record_substrate(write).await
    }

    async fn record_deletion_intent(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.store.record_deletion_intent(write).await
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
        self.store.purge_deleted(request).await
    }
}

#[async_trait]
impl Schedule for Racy {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        match self.race {
            Race::Lease => self.claim_late(request).await,
            Race::Version | Race::RequestId | Race::CachedRead => self.store.claim(request).await,
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

    async fn brake(&self, cluster: &ClusterId) -> Result<Option<Brake>, PortError> {
        self.store.brake(cluster).await
    }

    async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: Option<&Brake>,
        by: &Attribution,
    ) -> Result<(), PortError> {
        self.store.set_brake(cluster, brake, by).await
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
        self.store.purge_events(retention, limit).await
    }

    async fn backlog(&self) -> Result<Backlog, PortError> {
        self.store.backlog().await
    }
}
