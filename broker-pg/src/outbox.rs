//! Emit on Postgres: the outbox, in order per resource.

mod deliver;
pub(crate) mod statements;

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;
use broker_ports::{
    Acknowledged, Attribution, Backlog, ClaimEvents, ClaimedEvent, DeadLetter, DeliveryFailure,
    EventClaim, EventsOf, Outbox, PageSize, PortError, Redrive, ResourceDeadLetter,
};

use crate::store::PgStore;

#[async_trait]
impl Outbox for PgStore {
    #[tracing::instrument(name = "db.provisioning_outbox.claim", skip_all, fields(worker = %request.worker))]
    async fn claim_events(&self, request: &ClaimEvents) -> Result<Vec<ClaimedEvent>, PortError> {
        self.lease_events(request).await
    }

    #[tracing::instrument(name = "db.provisioning_outbox.acknowledge", skip_all, fields(event = %claim.event_id))]
    async fn acknowledge_event(&self, claim: &EventClaim) -> Result<Acknowledged, PortError> {
        self.settle_event(claim).await
    }

    #[tracing::instrument(name = "db.provisioning_outbox.delay", skip_all, fields(event = %claim.event_id))]
    async fn delay_event(
        &self,
        claim: &EventClaim,
        wait: Duration,
        failure: DeliveryFailure,
    ) -> Result<Acknowledged, PortError> {
        self.postpone_event(claim, wait, failure).await
    }

    #[tracing::instrument(name = "db.provisioning_outbox.dead_letter", skip_all, fields(event = %claim.event_id))]
    async fn dead_letter_event(
        &self,
        claim: &EventClaim,
        reason: &str,
    ) -> Result<Acknowledged, PortError> {
        self.mark_dead_letter(claim, reason).await
    }

    #[tracing::instrument(name = "db.provisioning_outbox.resume", skip_all, fields(resource = %id))]
    async fn redrive_events(
        &self,
        id: ProvisionedResourceId,
        redrive: Redrive,
        by: &Attribution,
    ) -> Result<Option<DeadLetter>, PortError> {
        self.redrive_dead_letter(id, redrive, by).await
    }

    #[tracing::instrument(name = "db.provisioning_outbox.purge", skip_all)]
    async fn purge_events(&self, retention: Duration, limit: PageSize) -> Result<u64, PortError> {
        self.remove_old_events(retention, limit).await
    }

    #[tracing::instrument(name = "db.provisioning_outbox.backlog", skip_all)]
    async fn backlog(&self) -> Result<Backlog, PortError> {
        self.count_backlog().await
    }

    #[tracing::instrument(name = "db.provisioning_outbox.dead_letter_events", skip_all)]
    async fn dead_letter_events(
        &self,
        scope: EventsOf,
        limit: PageSize,
    ) -> Result<Vec<ResourceDeadLetter>, PortError> {
        self.select_dead_letters(scope, limit).await
    }
}
