//! Forwards the broker's events into the host's own outbox table, once per event id.

use async_trait::async_trait;
use broker_embed::EventSink;
use broker_embed::ports::{Envelope, PortError};
use sqlx::PgPool;

/// Repeating it is safe: the unique constraint on `event_id` makes the second insert a no-op.
const INSERT: &str =
    "INSERT INTO plexsphere.outbox_events (event_id, context, event_type, subject, payload)
    VALUES ($1, 'provisioning', $2, $3, $4::text::json)
    ON CONFLICT (event_id) DO NOTHING";

/// An event sink that inserts into the table of `schema.sql`.
pub struct HostOutbox {
    pool: PgPool,
}

impl HostOutbox {
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }
}

#[async_trait]
impl EventSink for HostOutbox {
    /// Returns after the commit, so that an acknowledged event is durable.
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        let payload = std::str::from_utf8(&envelope.json)
            .map_err(|error| PortError::rejected("the event is not text").with_source(error))?;
        sqlx::query(INSERT)
            .bind(envelope.event_id.as_uuid())
            .bind(envelope.event_type.as_str())
            .bind(envelope.resource.to_string())
            .bind(payload)
            .execute(&self.pool)
            .await
            .map_err(|error| PortError::unknown("cannot forward the event").with_source(error))?;
        Ok(())
    }
}
