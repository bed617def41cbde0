//! Outboxes that break one promise each.

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{EventType, ProvisionedResourceId};
use broker_ports::testing::builders::worker;
use broker_ports::{
    Acknowledged, Attribution, AuditAction, AuditEntry, AuditSink as _, Backlog, ClaimEvents,
    ClaimedEvent, DeliveryFailure, EventClaim, EventsOf, Outbox, PageSize, PortError, Resume,
    SetAside, SetAsideOf,
};
use futures_util::FutureExt as _;

use super::Broken;
use super::flaws::Flaw;
use crate::half_way::half_way;

impl Broken {
    /// Takes events out of the outbox that nobody will ever see, until one comes that may be seen.
    pub(super) async fn swallow(
        &self,
        unseen: impl Fn(&ClaimedEvent) -> bool,
    ) -> Result<(), PortError> {
        loop {
            let request = ClaimEvents::new(worker("flaw"), PageSize::MAX, Duration::ZERO);
            let events = self.world.store.claim_events(&request).await?;
            let (unseen, seen): (Vec<_>, Vec<_>) =
                events.into_iter().partition(|event| unseen(event));
            for event in &unseen {
                self.world.store.acknowledge_event(&event.claim).await?;
            }
            if unseen.is_empty() || !seen.is_empty() {
                return Ok(());
            }
        }
    }

    /// The last claim that looks like this one to whoever counts attempts alone.
    fn last_of_its_attempt(&self, claim: &EventClaim) -> EventClaim {
        let looks = |event: &ClaimedEvent| {
            (event.claim.event_id, event.claim.worker.clone(), event.attempts)
        };
        self.note(|notes| {
            let handed_out = &notes.handed_out;
            let known = handed_out.iter().find(|event| event.claim == *claim);
            let last = known
                .and_then(|known| handed_out.iter().rfind(|event| looks(event) == looks(known)));
            last.map_or_else(|| claim.clone(), |last| last.claim.clone())
        })
    }

    /// Two events of each resource at a time, the later one first.
    async fn out_of_order(&self, request: &ClaimEvents) -> Result<Vec<ClaimedEvent>, PortError> {
        let first = self.world.store.claim_events(request).await?;
        for event in &first {
            self.world.store.acknowledge_event(&event.claim).await?;
        }
        let mut events = self.world.store.claim_events(request).await?;
        for event in &events {
            self.world.store.acknowledge_event(&event.claim).await?;
        }
        events.extend(first);
        Ok(events)
    }
}

#[async_trait]
impl Outbox for Broken {
    async fn claim_events(&self, request: &ClaimEvents) -> Result<Vec<ClaimedEvent>, PortError> {
        match self.flaw {
            Flaw::EventsOutOfOrder => return self.out_of_order(request).await,
            Flaw::ForgetsTheEvent => {
                self.swallow(|event| event.event_type == EventType::Deleting).await?;
            }
            _ => {}
        }
        let mut events = self.world.store.claim_events(request).await?;
        match self.flaw {
            Flaw::KnowsAClaimByItsAttempt => {
                self.note(|notes| notes.handed_out.extend(events.iter().cloned()));
            }
            Flaw::CountsAClaimAsAnAttempt => {
                for event in &mut events {
                    event.attempts = u32::try_from(event.claim.number).unwrap_or(u32::MAX);
                }
            }
            Flaw::RewritesThePayload => {
                for event in &mut events {
                    event.payload.push(b'\n');
                }
            }
            Flaw::KeepsTheLosersEvent => {
                events.extend(self.note(|notes| std::mem::take(&mut notes.ghosts)));
            }
            Flaw::ClaimsAnEventTwice if events.is_empty() => {
                events = self.note(|notes| notes.handed_out.clone());
            }
            Flaw::ClaimsAnEventTwice => {
                self.note(|notes| notes.handed_out.clone_from(&events));
            }
            _ => {}
        }
        Ok(events)
    }

    async fn acknowledge_event(&self, claim: &EventClaim) -> Result<Acknowledged, PortError> {
        if self.flaw == Flaw::AcknowledgesHalfWhenDropped {
            let aside = || self.world.store.set_aside_event(claim, "half way").now_or_never();
            half_way(|| drop(aside())).await;
        }
        match self.flaw {
            Flaw::KnowsAClaimByItsAttempt => {
                let last = self.last_of_its_attempt(claim);
                return self.world.store.acknowledge_event(&last).await;
            }
            Flaw::EventsOutOfOrder => return Ok(Acknowledged::Done),
            Flaw::KeepsTheLosersEvent if claim.worker == worker("ghost") => {
                return Ok(Acknowledged::Done);
            }
            Flaw::LosesClaimsByTime => {
                // A second claim by the same worker finds the first one over, if it is.
                let again = ClaimEvents::new(worker("flaw"), PageSize::MAX, Duration::ZERO);
                self.world.store.claim_events(&again).await?;
            }
            _ => {}
        }
        let taken = self.world.store.acknowledge_event(claim).await?;
        self.note(|notes| notes.handed_out.retain(|event| event.claim != *claim));
        match self.flaw {
            Flaw::AcknowledgesWithALostClaim => Ok(Acknowledged::Done),
            _ => Ok(taken),
        }
    }

    async fn delay_event(
        &self,
        claim: &EventClaim,
        wait: Duration,
        failure: DeliveryFailure,
    ) -> Result<Acknowledged, PortError> {
        if self.flaw == Flaw::DelaysHalfWhenDropped {
            let unavailable = DeliveryFailure::Unavailable;
            let half = || self.world.store.delay_event(claim, wait, unavailable).now_or_never();
            half_way(|| drop(half())).await;
        }
        let failure = match self.flaw {
            Flaw::CountsEveryFailureAsAnAttempt => DeliveryFailure::Rejected,
            _ => failure,
        };
        let wait = if self.flaw == Flaw::DelaysNothing { Duration::ZERO } else { wait };
        self.world.store.delay_event(claim, wait, failure).await
    }

    async fn set_aside_event(
        &self,
        claim: &EventClaim,
        reason: &str,
    ) -> Result<Acknowledged, PortError> {
        match self.flaw {
            Flaw::SetsNothingAside => Ok(Acknowledged::Done),
            _ => self.world.store.set_aside_event(claim, reason).await,
        }
    }

    async fn resume_events(
        &self,
        id: ProvisionedResourceId,
        how: Resume,
        by: &Attribution,
    ) -> Result<Option<SetAside>, PortError> {
        if self.flaw == Flaw::ResumesHalfWhenDropped {
            let entry = AuditEntry::new(AuditAction::EventsResumed, by.clone()).about(id);
            half_way(|| drop(self.world.store.record(&entry).now_or_never())).await;
        }
        let how = if self.flaw == Flaw::SkipsOnRetry { Resume::Skip } else { how };
        self.note(|notes| notes.skipped += u64::from(how == Resume::Skip));
        self.world.store.resume_events(id, how, by).await
    }

    async fn purge_events(&self, retention: Duration, limit: PageSize) -> Result<u64, PortError> {
        let limit = match self.flaw {
            Flaw::PurgesEventsWithoutLimit => PageSize::MAX,
            _ => limit,
        };
        if self.flaw == Flaw::PurgesWaitingEvents {
            self.swallow(|_| true).await?;
        }
        let purged = self.world.store.purge_events(retention, limit).await;
        match self.flaw {
            Flaw::PurgesEventsInAnOutage => purged.or(Ok(0)),
            Flaw::KeepsSkippedEvents => {
                Ok(purged?.saturating_sub(self.note(|notes| notes.skipped)))
            }
            _ => purged,
        }
    }

    async fn backlog(&self) -> Result<Backlog, PortError> {
        let backlog = self.world.store.backlog().await?;
        match self.flaw {
            Flaw::ForgetsWhatIsSetAside => Ok(backlog.with_set_aside(0)),
            _ => Ok(backlog),
        }
    }

    async fn set_aside_events(
        &self,
        of: EventsOf,
        limit: PageSize,
    ) -> Result<Vec<SetAsideOf>, PortError> {
        let of = match (self.flaw, of) {
            (Flaw::TellsOfEverybodysEvents, EventsOf::Resource(_))
            | (Flaw::TellsOfOtherProjectsEvents, EventsOf::Project(_)) => EventsOf::All,
            _ => of,
        };
        self.world.store.set_aside_events(of, limit).await
    }
}
