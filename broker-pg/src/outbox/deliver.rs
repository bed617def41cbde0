//! Claim, acknowledgement, delay, dead letter and redrive of events.

use std::time::Duration;

use broker_domain::{Error, EventId, EventType, ProvisionedResourceId};
use broker_ports::{
    Acknowledged, Attribution, AuditAction, Backlog, ClaimEvents, ClaimedEvent, DeadLetter,
    DeliveryFailure, EventClaim, EventsOf, PageSize, PortError, Redrive, ResourceDeadLetter,
    TraceParent, WorkerId,
};

use super::statements::{
    ACKNOWLEDGE_EVENT, AcknowledgeValues, BacklogRow, CLAIM_EVENTS, ClaimValues, ClaimedRow,
    DEAD_LETTER_EVENT, DEAD_LETTERS_OF_ALL, DEAD_LETTERS_OF_ONE, DEAD_LETTERS_OF_PROJECT,
    DELAY_EVENT, DeadLetterOfOneValues, DeadLetterRow, DeadLetterValues, DeadLettersOfAllValues,
    DeadLettersOfProjectValues, DelayValues, DoneRow, PURGE_EVENTS, PurgeEventsValues,
    PurgedEventsRow, READ_BACKLOG, REDRIVE_EVENTS, RedriveValues, ResourceDeadLetterRow,
};
use crate::error::{ClassifyError, invalid_row};
use crate::store::PgStore;
use crate::values::{microseconds, to_i64, to_u32, to_u64, without_nul};

const TABLE: &str = "provisioning_outbox";

fn acknowledgement(row: Option<DoneRow>) -> Acknowledged {
    if row.is_some_and(|DoneRow { done }| done) {
        Acknowledged::Done
    } else {
        Acknowledged::ClaimLost
    }
}

impl PgStore {
    pub(super) async fn lease_events(
        &self,
        request: &ClaimEvents,
    ) -> Result<Vec<ClaimedEvent>, PortError> {
        let values = ClaimValues {
            worker: request.worker.as_str(),
            limit: i64::from(request.limit.get()),
            claim_microseconds: microseconds(request.claim_for),
        };
        let mut connection = self.connection().await?;
        let rows = CLAIM_EVENTS.all(&mut connection, values).await.map_commit_error()?;
        rows.into_iter().map(|row| row.into_event(&request.worker)).collect()
    }

    pub(super) async fn settle_event(&self, claim: &EventClaim) -> Result<Acknowledged, PortError> {
        let values = AcknowledgeValues {
            event_id: claim.event_id.as_uuid(),
            worker: claim.worker.as_str(),
            number: to_i64(claim.number),
        };
        let mut connection = self.connection().await?;
        ACKNOWLEDGE_EVENT
            .optional(&mut connection, values)
            .await
            .map_commit_error()
            .map(acknowledgement)
    }

    pub(super) async fn postpone_event(
        &self,
        claim: &EventClaim,
        wait: Duration,
        failure: DeliveryFailure,
    ) -> Result<Acknowledged, PortError> {
        let values = DelayValues {
            event_id: claim.event_id.as_uuid(),
            worker: claim.worker.as_str(),
            number: to_i64(claim.number),
            wait_microseconds: microseconds(wait),
            rejected: match failure {
                DeliveryFailure::Rejected => true,
                DeliveryFailure::Unavailable => false,
            },
        };
        let mut connection = self.connection().await?;
        DELAY_EVENT.optional(&mut connection, values).await.map_commit_error().map(acknowledgement)
    }

    pub(super) async fn mark_dead_letter(
        &self,
        claim: &EventClaim,
        reason: &str,
    ) -> Result<Acknowledged, PortError> {
        let values = DeadLetterValues {
            event_id: claim.event_id.as_uuid(),
            worker: claim.worker.as_str(),
            number: to_i64(claim.number),
            reason: &without_nul(reason),
        };
        let mut connection = self.connection().await?;
        DEAD_LETTER_EVENT
            .optional(&mut connection, values)
            .await
            .map_commit_error()
            .map(acknowledgement)
    }

    pub(super) async fn redrive_dead_letter(
        &self,
        id: ProvisionedResourceId,
        redrive: Redrive,
        by: &Attribution,
    ) -> Result<Option<DeadLetter>, PortError> {
        let (skip, action) = match redrive {
            Redrive::Retry => (false, AuditAction::EventsRedriven),
            Redrive::Skip => (true, AuditAction::EventsSkipped),
        };
        let values = RedriveValues {
            id: id.as_uuid(),
            skip,
            action: action.as_str(),
            actor: by.actor.as_str(),
            correlation_id: by.correlation_id.as_str(),
        };
        let mut connection = self.connection().await?;
        let row = REDRIVE_EVENTS.optional(&mut connection, values).await.map_commit_error()?;
        row.map(DeadLetterRow::into_dead_letter).transpose()
    }

    pub(super) async fn remove_old_events(
        &self,
        retention: Duration,
        limit: PageSize,
    ) -> Result<u64, PortError> {
        let values = PurgeEventsValues {
            retention_microseconds: microseconds(retention),
            limit: i64::from(limit.get()),
        };
        let mut connection = self.connection().await?;
        let PurgedEventsRow { purged } =
            PURGE_EVENTS.one(&mut connection, values).await.map_commit_error()?;
        Ok(purged.unsigned_abs())
    }

    pub(super) async fn count_backlog(&self) -> Result<Backlog, PortError> {
        let mut connection = self.connection().await?;
        let BacklogRow { depth, dead_letter, oldest } =
            READ_BACKLOG.one(&mut connection, ()).await.map_uncommitted_error()?;
        Ok(Backlog::new(depth.unsigned_abs(), oldest).with_dead_letter(dead_letter.unsigned_abs()))
    }
}

impl PgStore {
    pub(super) async fn select_dead_letters(
        &self,
        scope: EventsOf,
        limit: PageSize,
    ) -> Result<Vec<ResourceDeadLetter>, PortError> {
        let mut connection = self.connection().await?;
        let limit = i64::from(limit.get());
        let rows = match scope {
            EventsOf::All => {
                let values = DeadLettersOfAllValues { limit };
                DEAD_LETTERS_OF_ALL.all(&mut connection, values).await.map_uncommitted_error()?
            }
            EventsOf::Project(project) => {
                let values = DeadLettersOfProjectValues { project_id: project.as_uuid(), limit };
                DEAD_LETTERS_OF_PROJECT
                    .all(&mut connection, values)
                    .await
                    .map_uncommitted_error()?
            }
            EventsOf::Resource(id) => {
                let values = DeadLetterOfOneValues { id: id.as_uuid() };
                DEAD_LETTERS_OF_ONE.all(&mut connection, values).await.map_uncommitted_error()?
            }
        };
        rows.into_iter().map(ResourceDeadLetterRow::into_dead_letter).collect()
    }
}

impl ResourceDeadLetterRow {
    fn into_dead_letter(self) -> Result<ResourceDeadLetter, PortError> {
        let Self { provisioned_resource_id, event_id, event_type, reason } = self;
        let resource = ProvisionedResourceId::new(provisioned_resource_id)
            .map_err(|error| invalid_row(TABLE, event_id, error))?;
        let event = DeadLetterRow { event_id, event_type, reason }.into_dead_letter()?;
        Ok(ResourceDeadLetter::new(resource, event))
    }
}

impl ClaimedRow {
    fn into_event(self, worker: &WorkerId) -> Result<ClaimedEvent, PortError> {
        let id = self.event_id;
        self.parse(worker).map_err(|error| invalid_row(TABLE, id, error))
    }

    fn parse(self, worker: &WorkerId) -> Result<ClaimedEvent, Error> {
        let Self {
            event_id,
            provisioned_resource_id,
            sequence,
            event_type,
            occurred_at,
            payload,
            traceparent,
            claims,
            attempts,
        } = self;
        let number = to_u64("claims", claims)?;
        Ok(ClaimedEvent::new(
            EventClaim::new(EventId::new(event_id)?, worker.clone(), number),
            to_u32("attempts", attempts)?,
            ProvisionedResourceId::new(provisioned_resource_id)?,
            to_u64("sequence", sequence)?,
            EventType::try_from(event_type.as_str())?,
            occurred_at,
            payload.into_bytes(),
        )
        // A trace is optional: an unreadable one does not block the event.
        .in_trace(traceparent.and_then(|trace| TraceParent::new(trace).ok())))
    }
}

impl DeadLetterRow {
    fn into_dead_letter(self) -> Result<DeadLetter, PortError> {
        let Self { event_id, event_type, reason } = self;
        let invalid = |error| invalid_row(TABLE, event_id, error);
        let id = EventId::new(event_id).map_err(invalid)?;
        let event_type = EventType::try_from(event_type.as_str()).map_err(invalid)?;
        Ok(DeadLetter::new(id, event_type, reason))
    }
}
