//! What the cases do again and again, in words of their own.

use std::fmt::Debug;
use std::time::Duration;

use broker_domain::{
    Change, Error, Phase, ProvisionedResource, ProvisionedResourceId, Snapshot, Stamp, Version,
};
use broker_ports::{
    Acknowledged, AuditAction, AuditRecord, Backlog, ClaimEvents, ClaimRequest, ClaimTarget,
    ClaimedEvent, Created, Lane, Lease, LeaseEpoch, PassOutcome, Released, ScheduleEntry, Write,
    WriteKind, Written,
};
use time::OffsetDateTime;

use super::StoreUnderTest;
use crate::builders::{ResourceBuilder, attribution, rows, stamp, worker};
use crate::prelude::*;

/// Longer than any back-off, and short against [`LONG`].
pub(super) const HOUR: Duration = Duration::from_hours(1);
/// Longer than any lease or claim that a case takes.
pub(super) const LONG: Duration = Duration::from_hours(1_000);

/// Two answers are the same, or the violation shows both.
pub(super) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Violation::new(format!("{what}: {found:?} instead of {expected:?}")))
}

/// It was rejected with a domain error of that reason: of that field, or whose message names that word.
pub(super) fn require_refused<T>(
    answer: Result<T, PortError>,
    reason: &str,
    word: &str,
) -> Outcome {
    let Err(error) = answer else {
        return Err(Violation::new(format!("{reason} was expected, and it went through")));
    };
    let class = error.class();
    let is_about = |domain: &Error| {
        if let Error::InvalidInput { field, .. } = domain {
            field == word
        } else {
            domain.to_string().contains(word)
        }
    };
    let named = error.domain();
    let right = class == FailureClass::Rejected
        && named.is_some_and(|domain| domain.reason() == reason && is_about(domain));
    require(right, &format!("{reason} naming {word} was expected, and it is {class} {named:?}"))
}

/// The same resource but for the time of its last change, which is the store's.
pub(super) fn same_resource(
    found: &ProvisionedResource,
    expected: &ProvisionedResource,
) -> Outcome {
    let row = |resource: &ProvisionedResource| Snapshot {
        updated_at: OffsetDateTime::UNIX_EPOCH,
        ..resource.snapshot()
    };
    same("the resource reads back as", &row(found), &row(expected))
}

/// A fresh stamp: event ids above those of the builders.
pub(super) fn fresh_stamp(number: u128) -> Stamp {
    stamp(1_000_000_000 + number, 1_000)
}

/// The resource's next phase as a change, with an event id of its own.
pub(super) fn to(
    resource: &ProvisionedResource,
    phase: Phase,
    number: u128,
) -> Result<Change, Violation> {
    resource.advance(phase, fresh_stamp(number))?.ok_or(Violation::new("it is there already"))
}

/// A deletion request as a change, with an event id of its own.
pub(super) fn deletion(resource: &ProvisionedResource, number: u128) -> Result<Change, Violation> {
    resource.request_deletion(fresh_stamp(number)).ok_or(Violation::new("it is leaving already"))
}

/// A pass that went well and leaves the rest to the sweep.
pub(super) const fn went_well() -> PassOutcome {
    PassOutcome::Succeeded { due_in: None }
}

/// A pass that failed.
pub(super) fn went_wrong() -> PassOutcome {
    PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "the API server is away".to_owned(),
        retry_after: None,
    }
}

/// A pass that failed, and that was asked to come back after a while.
pub(super) fn asked_to_wait(wait: Duration) -> PassOutcome {
    PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "too many requests".to_owned(),
        retry_after: Some(wait),
    }
}

/// Due by the store's own clock.
pub(super) fn is_due(entry: &ScheduleEntry) -> bool {
    entry.due_at.is_some_and(|due_at| due_at <= entry.now)
}

/// How long it is until something is due.
pub(super) fn wait(entry: &ScheduleEntry) -> Result<Duration, Violation> {
    let due_at = entry.due_at.ok_or(Violation::new("it is left to the sweep"))?;
    Ok((due_at - entry.now).max(time::Duration::ZERO).try_into()?)
}

/// Everything that a refused write could have left behind.
#[derive(Debug, PartialEq)]
pub(super) struct Facts {
    resource: Option<ProvisionedResource>,
    schedule: Option<ScheduleEntry>,
    audit: Vec<AuditRecord>,
    backlog: Backlog,
}

impl dyn StoreUnderTest + '_ {
    /// Stores a resource with everything that led it to where it stands, and reads it back.
    pub(super) async fn stored(
        &self,
        builder: &ResourceBuilder,
    ) -> Result<ProvisionedResource, Violation> {
        self.know(&builder.declaration()).await?;
        let created = self.repository().create(&builder.admitted()).await?;
        same("a new declaration is answered", &created, &Created::Stored)?;
        for (kind, change) in &builder.life().then {
            self.commit(*kind, change).await?;
        }
        self.get(builder.id()).await
    }

    pub(super) async fn get(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Violation> {
        let found = self.repository().get_by_id(id).await?;
        found.ok_or_else(|| Violation::new(format!("{id} is not there")))
    }

    /// A write of that kind: a worker's under an epoch, a caller's without.
    pub(super) async fn attempt(
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

    /// A caller's write, which has to go through.
    pub(super) async fn commit(&self, kind: WriteKind, change: &Change) -> Outcome {
        let written = self.attempt(kind, change, None).await?;
        same("a write from the stored version is answered", &written, &Written::Committed)
    }

    /// A change of phase by the holder of a lease, which has to go through.
    pub(super) async fn commit_as(&self, lease: &Lease, change: &Change) -> Outcome {
        let written = self.attempt(WriteKind::Phase, change, Some(lease.epoch)).await?;
        same("the holder's write is answered", &written, &Written::Committed)
    }

    pub(super) async fn entry(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<ScheduleEntry, Violation> {
        let found = self.schedule().entry(id).await?;
        found.ok_or_else(|| Violation::new(format!("{id} has no place in the schedule")))
    }

    /// Claims one resource for an hour, if it can be had.
    pub(super) async fn claim_one(
        &self,
        name: &str,
        id: ProvisionedResourceId,
    ) -> Result<Option<Lease>, Violation> {
        let target = ClaimTarget::One(id);
        let request = ClaimRequest::new(worker(name), target, HOUR);
        let mut leases = self.schedule().claim(&request).await?;
        require(leases.len() <= 1, "one resource was asked for, and more were claimed")?;
        Ok(leases.pop())
    }

    /// Claims one resource for an hour, which has to work.
    pub(super) async fn hold(
        &self,
        name: &str,
        id: ProvisionedResourceId,
    ) -> Result<Lease, Violation> {
        let lease = self.claim_one(name, id).await?;
        lease.ok_or_else(|| Violation::new(format!("{id} cannot be claimed")))
    }

    /// Claims what is due in a lane, for an hour.
    pub(super) async fn claim_due(&self, lane: Lane, limit: u16) -> Result<Vec<Lease>, Violation> {
        let target = ClaimTarget::Due { lane, limit: rows(limit) };
        let request = ClaimRequest::new(worker("due"), target, HOUR);
        Ok(self.schedule().claim(&request).await?)
    }

    /// The ids of what is due in a lane.
    pub(super) async fn due_in(&self, lane: Lane) -> Result<Vec<ProvisionedResourceId>, Violation> {
        let mut ids: Vec<_> =
            self.claim_due(lane, 100).await?.into_iter().map(|lease| lease.resource).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Gives a lease back, which has to work.
    pub(super) async fn give_back(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Outcome {
        let released = self.schedule().release(lease, seen, outcome).await?;
        same("a lease that is held is given back", &released, &Released::Done)
    }

    /// One pass over a resource, from claim to release.
    pub(super) async fn pass(
        &self,
        resource: &ProvisionedResource,
        outcome: &PassOutcome,
    ) -> Outcome {
        let lease = self.hold("pass", resource.id()).await?;
        self.give_back(&lease, resource.version(), outcome).await
    }

    /// Claims events for an hour.
    pub(super) async fn claim_events(
        &self,
        name: &str,
        limit: u16,
    ) -> Result<Vec<ClaimedEvent>, Violation> {
        let request = ClaimEvents::new(worker(name), rows(limit), HOUR);
        Ok(self.outbox().claim_events(&request).await?)
    }

    /// Claims the one event that can be claimed.
    pub(super) async fn claim_event(&self, name: &str) -> Result<ClaimedEvent, Violation> {
        let mut events = self.claim_events(name, 100).await?;
        let event = events.pop().ok_or(Violation::new("no event can be claimed"))?;
        require(events.is_empty(), "more events can be claimed than should be")?;
        Ok(event)
    }

    pub(super) async fn acknowledge(&self, event: &ClaimedEvent) -> Outcome {
        let taken = self.outbox().acknowledge_event(&event.claim).await?;
        same("an acknowledgement under a claim is answered", &taken, &Acknowledged::Done)
    }

    /// Delivers everything that can be delivered, and answers it in the order of delivery.
    pub(super) async fn deliver_all(&self) -> Result<Vec<ClaimedEvent>, Violation> {
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

    /// What the audit says was done with a resource, oldest first.
    pub(super) async fn actions(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Vec<AuditAction>, Violation> {
        let history = self.repository().history(id).await?;
        Ok(history.into_iter().map(|line| line.entry.action).collect())
    }

    /// The newest audit line of a resource.
    pub(super) async fn last_line(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<AuditRecord, Violation> {
        let line = self.repository().history(id).await?.pop();
        line.ok_or_else(|| Violation::new(format!("nothing was audited of {id}")))
    }

    /// Everything that a refused write could have left behind.
    pub(super) async fn facts(&self, id: ProvisionedResourceId) -> Result<Facts, Violation> {
        let schedule = self.schedule().entry(id).await?;
        Ok(Facts {
            resource: self.repository().get_by_id(id).await?,
            schedule: schedule.map(|mut entry| {
                entry.now = OffsetDateTime::UNIX_EPOCH;
                entry
            }),
            audit: self.audit_trail().await?,
            backlog: self.outbox().backlog().await?,
        })
    }

    /// Nothing is other than it was.
    pub(super) async fn require_untouched(
        &self,
        id: ProvisionedResourceId,
        before: &Facts,
    ) -> Outcome {
        same("nothing was to change, and there is", &self.facts(id).await?, before)
    }
}
