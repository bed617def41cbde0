//! Emit: waiting events in memory, in order per resource.

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;

use super::MemoryStore;
use super::state::{EventKey, State, Waiting};
use crate::PortResult;
use broker_ports::{
    Acknowledged, Attribution, AuditAction, AuditEntry, Backlog, ClaimEvents, ClaimedEvent,
    DeadLetter, DeliveryFailure, EventClaim, EventsOf, Outbox, PageSize, Redrive,
    ResourceDeadLetter,
};

impl State {
    fn claim_events(&mut self, request: &ClaimEvents) -> Vec<ClaimedEvent> {
        let until = self.after(request.claim_for);
        let mut chosen: Vec<(u64, EventKey)> = Vec::new();
        let mut previous = None;
        for (key, event) in &self.waiting {
            // Only the first waiting event of each resource is a candidate, so events arrive in order.
            if previous.replace(key.0) == Some(key.0) {
                continue;
            }
            let held = event.held_until.is_some_and(|until| until > self.now);
            if event.dead_letter.is_none() && !held {
                chosen.push((event.position, *key));
            }
        }
        chosen.sort_unstable();
        chosen.truncate(usize::from(request.limit.get()));
        let mut claimed = Vec::with_capacity(chosen.len());
        for (_, key) in chosen {
            let Some(event) = self.waiting.get_mut(&key) else { continue };
            event.claims += 1;
            event.claimed_by = Some(request.worker.clone());
            event.held_until = Some(until);
            claimed.push(event.to_claimed(key, request));
        }
        claimed
    }

    /// The event of a claim; `None` if the event was settled or claimed again.
    fn claimed(&mut self, claim: &EventClaim) -> Option<(EventKey, &mut Waiting)> {
        let key = *self.event_keys.get(&claim.event_id)?;
        let event = self.waiting.get_mut(&key)?;
        let is_holder = event.claimed_by.as_ref() == Some(&claim.worker);
        (is_holder && event.claims == claim.number).then_some((key, event))
    }

    fn acknowledge(&mut self, claim: &EventClaim) -> Acknowledged {
        let Some((key, _)) = self.claimed(claim) else { return Acknowledged::ClaimLost };
        self.settle(key);
        Acknowledged::Done
    }

    fn delay(
        &mut self,
        claim: &EventClaim,
        wait: Duration,
        failure: DeliveryFailure,
    ) -> Acknowledged {
        let until = self.after(wait);
        let Some((_, event)) = self.claimed(claim) else { return Acknowledged::ClaimLost };
        event.claimed_by = None;
        event.held_until = Some(until);
        match failure {
            DeliveryFailure::Rejected => event.attempts = event.attempts.saturating_add(1),
            DeliveryFailure::Unavailable => {}
        }
        Acknowledged::Done
    }

    fn dead_letter(&mut self, claim: &EventClaim, reason: &str) -> Acknowledged {
        let Some((_, event)) = self.claimed(claim) else { return Acknowledged::ClaimLost };
        event.claimed_by = None;
        event.held_until = None;
        event.dead_letter = Some(reason.to_owned());
        Acknowledged::Done
    }

    fn redrive(
        &mut self,
        id: ProvisionedResourceId,
        how: Redrive,
        by: &Attribution,
    ) -> Option<DeadLetter> {
        let (key, event) = self.waiting.range_mut((id, 0)..=(id, u64::MAX)).next()?;
        let key = *key;
        let reason = event.dead_letter.take()?;
        let dead_letter = DeadLetter::new(event.event_id, event.event_type, reason);
        event.attempts = 0;
        let action = match how {
            Redrive::Retry => AuditAction::EventsRedriven,
            Redrive::Skip => {
                self.settle(key);
                AuditAction::EventsSkipped
            }
        };
        let mut entry = AuditEntry::new(action, by.clone()).for_resource(id);
        if let Some(row) = self.rows.get(&id) {
            entry = entry.in_project(row.resource.project_id()).in_phase(row.resource.phase());
        }
        self.append_audit(entry, None, None);
        Some(dead_letter)
    }

    fn purge_events(&mut self, retention: Duration, limit: PageSize) -> u64 {
        let mut purged = 0;
        while purged < u64::from(limit.get())
            && let Some((at, event_id)) = self.settled.front().copied()
            && self.now - at > retention
        {
            self.settled.pop_front();
            if let Some((resource, sequence)) = self.event_keys.remove(&event_id)
                && self.traces.get(&resource).is_some_and(|(latest, _)| *latest == sequence)
            {
                self.traces.remove(&resource);
            }
            purged += 1;
        }
        purged
    }

    fn dead_letter_events(&self, scope: EventsOf, limit: PageSize) -> Vec<ResourceDeadLetter> {
        let is_selected = |key: &EventKey| match scope {
            EventsOf::All => true,
            EventsOf::Project(project) => {
                self.rows.get(&key.0).is_some_and(|row| row.resource.project_id() == project)
            }
            EventsOf::Resource(id) => id == key.0,
        };
        let events = self.waiting.iter().filter(|(key, _)| is_selected(key));
        let dead_letters = events.filter_map(|(key, event)| {
            let reason = event.dead_letter.clone()?;
            let event = DeadLetter::new(event.event_id, event.event_type, reason);
            Some(ResourceDeadLetter::new(key.0, event))
        });
        dead_letters.take(usize::from(limit.get())).collect()
    }

    fn backlog(&self) -> Backlog {
        let dead_letter = self.waiting.values().filter(|event| event.dead_letter.is_some()).count();
        let oldest = self.waiting.values().map(|event| event.committed_at).min();
        Backlog::new(self.waiting.len() as u64, oldest).with_dead_letter(dead_letter as u64)
    }
}

impl Waiting {
    fn to_claimed(&self, key: EventKey, request: &ClaimEvents) -> ClaimedEvent {
        let (resource, sequence) = key;
        let worker = request.worker.clone();
        ClaimedEvent::new(
            EventClaim::new(self.event_id, worker, self.claims),
            self.attempts,
            resource,
            sequence,
            self.event_type,
            self.occurred_at,
            self.payload.clone(),
        )
        .in_trace(self.traceparent.clone())
    }
}

#[async_trait]
impl Outbox for MemoryStore {
    async fn claim_events(&self, request: &ClaimEvents) -> PortResult<Vec<ClaimedEvent>> {
        self.transact(|state| Ok(state.claim_events(request)))
    }

    async fn acknowledge_event(&self, claim: &EventClaim) -> PortResult<Acknowledged> {
        self.transact(|state| Ok(state.acknowledge(claim)))
    }

    async fn delay_event(
        &self,
        claim: &EventClaim,
        wait: Duration,
        failure: DeliveryFailure,
    ) -> PortResult<Acknowledged> {
        self.transact(|state| Ok(state.delay(claim, wait, failure)))
    }

    async fn dead_letter_event(
        &self,
        claim: &EventClaim,
        reason: &str,
    ) -> PortResult<Acknowledged> {
        self.transact(|state| Ok(state.dead_letter(claim, reason)))
    }

    async fn redrive_events(
        &self,
        id: ProvisionedResourceId,
        how: Redrive,
        by: &Attribution,
    ) -> PortResult<Option<DeadLetter>> {
        self.transact(|state| Ok(state.redrive(id, how, by)))
    }

    async fn purge_events(&self, retention: Duration, limit: PageSize) -> PortResult<u64> {
        self.transact(|state| Ok(state.purge_events(retention, limit)))
    }

    async fn backlog(&self) -> PortResult<Backlog> {
        self.transact(|state| Ok(state.backlog()))
    }

    async fn dead_letter_events(
        &self,
        scope: EventsOf,
        limit: PageSize,
    ) -> PortResult<Vec<ResourceDeadLetter>> {
        self.transact(|state| Ok(state.dead_letter_events(scope, limit)))
    }
}
