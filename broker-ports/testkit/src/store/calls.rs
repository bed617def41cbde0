//! Port calls of the store cases. A failed call is a violation.

use time::OffsetDateTime;

use super::prelude::*;

impl World {
    /// Stores a resource with all its changes and reads it back.
    pub(super) async fn store(&self, builder: &ResourceBuilder) -> Checked<ProvisionedResource> {
        self.register_references(&builder.declaration()).await?;
        let created = self.repository().create(&builder.admitted()).await?;
        equal("the result of a creation", &created, &Created::Stored)?;
        for (kind, change) in &builder.history().later {
            self.commit(*kind, change).await?;
        }
        self.get(builder.id()).await
    }

    /// Stores several resources, one after another.
    pub(super) async fn store_all(
        &self,
        builders: impl IntoIterator<Item = ResourceBuilder>,
    ) -> Checked<Vec<ProvisionedResource>> {
        let builders: Vec<_> = builders.into_iter().collect();
        let mut stored = Vec::with_capacity(builders.len());
        for builder in &builders {
            stored.push(self.store(builder).await?);
        }
        Ok(stored)
    }

    /// Stores resources that were deleted long ago, with every event delivered.
    pub(super) async fn store_long_deleted(
        &self,
        builders: impl Iterator<Item = ResourceBuilder>,
    ) -> Checked<Vec<ProvisionedResource>> {
        let stored = self.store_all(builders.map(ResourceBuilder::deleted)).await?;
        self.deliver_all().await?;
        self.advance(LONG).await?;
        Ok(stored)
    }

    pub(super) async fn get(&self, id: ProvisionedResourceId) -> Checked<ProvisionedResource> {
        let found = self.repository().get_by_id(id).await?;
        found.ok_or_else(|| Violation::new(format!("{id} does not exist")))
    }

    /// A write of this kind: a worker's with an epoch, a caller's without.
    pub(super) async fn try_write(
        &self,
        kind: WriteKind,
        change: &Change,
        epoch: Option<LeaseEpoch>,
    ) -> Result<Written, PortError> {
        let by = attribution();
        let mut write = Write::by_caller(change, &by);
        write.epoch = epoch;
        self.repository().write(kind, &write).await
    }

    /// A caller's write, which must commit.
    pub(super) async fn commit(&self, kind: WriteKind, change: &Change) -> Outcome {
        let written = self.try_write(kind, change, None).await?;
        equal("the result of a write from the stored version", &written, &Written::Committed)
    }

    /// Checks that a write has this result and no effect.
    pub(super) async fn require_rejected_write(
        &self,
        kind: WriteKind,
        change: &Change,
        epoch: Option<LeaseEpoch>,
        expected: Written,
    ) -> Outcome {
        let before = self.state_of(change.resource().id()).await?;
        let written = self.try_write(kind, change, epoch).await?;
        equal("the result of a refused write", &written, &expected)?;
        self.require_untouched(change.resource().id(), &before).await
    }

    /// A phase change by the holder of a lease, which must commit.
    pub(super) async fn commit_as(&self, lease: &Lease, change: &Change) -> Outcome {
        let written = self.try_write(WriteKind::Phase, change, Some(lease.epoch)).await?;
        equal("the result of the holder's write", &written, &Written::Committed)
    }

    pub(super) async fn entry(&self, id: ProvisionedResourceId) -> Checked<ScheduleEntry> {
        let found = self.schedule().entry(id).await?;
        found.ok_or_else(|| Violation::new(format!("{id} has no schedule entry")))
    }

    /// Claims for an hour.
    pub(super) async fn claim(&self, name: &str, target: ClaimTarget) -> Checked<Vec<Lease>> {
        Ok(self.schedule().claim(&ClaimRequest::new(worker(name), target, HOUR)).await?)
    }

    /// Claims one resource for an hour, if it is free.
    pub(super) async fn claim_one(
        &self,
        name: &str,
        id: ProvisionedResourceId,
    ) -> Checked<Option<Lease>> {
        let mut leases = self.claim(name, ClaimTarget::One(id)).await?;
        require(leases.len() <= 1, "a claim of one resource returned several leases")?;
        Ok(leases.pop())
    }

    /// Claims one resource for an hour. The claim must succeed.
    pub(super) async fn take_lease(&self, name: &str, id: ProvisionedResourceId) -> Checked<Lease> {
        let lease = self.claim_one(name, id).await?;
        lease.ok_or_else(|| Violation::new(format!("{id} cannot be claimed")))
    }

    /// Claims the due resources of a lane for an hour.
    pub(super) async fn claim_due(&self, lane: Lane, limit: u16) -> Checked<Vec<Lease>> {
        self.claim("due", ClaimTarget::Due { lane, limit: rows(limit) }).await
    }

    /// The ids of the due resources of a lane.
    pub(super) async fn due_resources(&self, lane: Lane) -> Checked<Vec<ProvisionedResourceId>> {
        let mut ids: Vec<_> =
            self.claim_due(lane, 100).await?.into_iter().map(|lease| lease.resource).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Releases a lease. The release must succeed.
    pub(super) async fn release_lease(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Outcome {
        let released = self.schedule().release(lease, seen, outcome).await?;
        equal("the release of a held lease", &released, &Released::Done)
    }

    /// One pass over a resource, from claim to release.
    pub(super) async fn run_pass(
        &self,
        resource: &ProvisionedResource,
        outcome: &PassOutcome,
    ) -> Outcome {
        let lease = self.take_lease("pass", resource.id()).await?;
        self.release_lease(&lease, resource.version(), outcome).await
    }

    /// Pauses or resumes a resource; returns whether it exists.
    pub(super) async fn pause(&self, id: ProvisionedResourceId, paused: bool) -> Checked<bool> {
        Ok(self.schedule().set_paused(id, paused, &attribution()).await?)
    }

    /// Purges resources that were deleted more than an hour ago.
    pub(super) async fn purge(&self) -> Checked<Vec<ProvisionedResourceId>> {
        Ok(self.repository().purge_deleted(&AFTER_AN_HOUR).await?)
    }

    /// Claims events for an hour.
    pub(super) async fn claim_events(&self, name: &str, limit: u16) -> Checked<Vec<ClaimedEvent>> {
        let request = ClaimEvents::new(worker(name), rows(limit), HOUR);
        Ok(self.outbox().claim_events(&request).await?)
    }

    /// Claims the only claimable event.
    pub(super) async fn claim_event(&self, name: &str) -> Checked<ClaimedEvent> {
        let mut events = self.claim_events(name, 100).await?;
        let event = events.pop().ok_or(Violation::new("no event can be claimed"))?;
        require(events.is_empty(), "more than one event can be claimed")?;
        Ok(event)
    }

    pub(super) async fn acknowledge(&self, event: &ClaimedEvent) -> Outcome {
        let result = self.outbox().acknowledge_event(&event.claim).await?;
        equal("the result of an acknowledgement under a claim", &result, &Acknowledged::Done)
    }

    /// Claims the only claimable event and dead-letters it.
    pub(super) async fn dead_letter(&self, reason: &str) -> Checked<ClaimedEvent> {
        let event = self.claim_event("relay").await?;
        let result = self.outbox().dead_letter_event(&event.claim, reason).await?;
        equal("the result of a dead-lettering", &result, &Acknowledged::Done)?;
        Ok(event)
    }

    /// Redrives the events of a resource.
    pub(super) async fn redrive(
        &self,
        id: ProvisionedResourceId,
        how: Redrive,
    ) -> Checked<Option<DeadLetter>> {
        Ok(self.outbox().redrive_events(id, how, &attribution()).await?)
    }

    /// Checks that every operation under the claim returns `ClaimLost` and changes nothing.
    pub(super) async fn require_claim_lost(&self, event: &ClaimedEvent) -> Outcome {
        let before = self.state_of(event.resource).await?;
        for result in [
            self.outbox().acknowledge_event(&event.claim).await?,
            self.outbox().delay_event(&event.claim, HOUR * 9, DeliveryFailure::Rejected).await?,
            self.outbox().dead_letter_event(&event.claim, "again").await?,
        ] {
            equal("the result under an earlier claim", &result, &Acknowledged::ClaimLost)?;
        }
        self.require_untouched(event.resource, &before).await
    }

    /// The number of waiting events, and of dead-lettered ones among them.
    pub(super) async fn backlog(&self) -> Checked<(u64, u64)> {
        let backlog = self.outbox().backlog().await?;
        Ok((backlog.depth, backlog.dead_letter))
    }

    /// Delivers all deliverable events and returns them in order of delivery.
    pub(super) async fn deliver_all(&self) -> Checked<Vec<ClaimedEvent>> {
        let mut delivered = Vec::new();
        loop {
            let events = self.claim_events("relay", 100).await?;
            if events.is_empty() {
                return Ok(delivered);
            }
            for event in events {
                self.acknowledge(&event).await?;
                delivered.push(event);
            }
        }
    }

    /// The audited actions of a resource, oldest first.
    pub(super) async fn actions(&self, id: ProvisionedResourceId) -> Checked<Vec<AuditAction>> {
        let history = self.repository().history(id).await?;
        Ok(history.into_iter().map(|line| line.entry.action).collect())
    }

    /// The newest audit line of a resource.
    pub(super) async fn last_line(&self, id: ProvisionedResourceId) -> Checked<AuditRecord> {
        let line = self.repository().history(id).await?.pop();
        line.ok_or_else(|| Violation::new(format!("{id} has no audit line")))
    }

    /// The state that a refused write must not change.
    pub(super) async fn state_of(&self, id: ProvisionedResourceId) -> Checked<StoredState> {
        let schedule = self.schedule().entry(id).await?;
        Ok(StoredState {
            resource: self.repository().get_by_id(id).await?,
            schedule: schedule.map(|mut entry| {
                entry.now = OffsetDateTime::UNIX_EPOCH;
                entry
            }),
            audit: self.audit_trail().await?,
            backlog: self.outbox().backlog().await?,
        })
    }

    /// Checks that nothing changed.
    pub(super) async fn require_untouched(
        &self,
        id: ProvisionedResourceId,
        before: &StoredState,
    ) -> Outcome {
        equal("the state after a refused write", &self.state_of(id).await?, before)
    }
}
