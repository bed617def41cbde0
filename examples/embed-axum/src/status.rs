//! Writes the broker's events as the status of an order.

use async_trait::async_trait;
use broker_embed::EventSink;
use broker_embed::domain::EventType;
use broker_embed::ports::{Envelope, PortError};
use sqlx::PgPool;

/// An event sink that updates the order of the machine.
pub struct OrderStatus {
    pool: PgPool,
}

impl OrderStatus {
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }
}

#[async_trait]
impl EventSink for OrderStatus {
    /// Ignores a repeated event, an event older than the stored one, and an event of a machine without an order.
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        let sequence = i64::try_from(envelope.sequence)
            .map_err(|error| PortError::rejected("the sequence is too large").with_source(error))?;
        let update = "UPDATE public.orders SET status = $1, status_from = $2
            WHERE machine = $3 AND status_from < $2";
        sqlx::query(update)
            .bind(status(envelope.event_type))
            .bind(sequence)
            .bind(envelope.resource.as_uuid())
            .execute(&self.pool)
            .await
            .map_err(|error| PortError::unknown("cannot write the status").with_source(error))?;
        Ok(())
    }
}

/// The status that the customer reads.
const fn status(event: EventType) -> &'static str {
    match event {
        EventType::Requested => "Pending",
        EventType::Ready => "Ready",
        EventType::Failed => "Failed",
        EventType::Deleting => "Deleting",
        EventType::Deleted => "Deleted",
    }
}
