//! The default event sink: one log line per event.

use async_trait::async_trait;
use broker_ports::{Envelope, EventSink, PortError};

/// Logs each envelope as one line, under the target `broker.event`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogEventSink;

#[async_trait]
impl EventSink for LogEventSink {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        let json = String::from_utf8_lossy(&envelope.json);
        tracing::info!(target: "broker.event", event_type = %envelope.event_type, envelope = %json);
        Ok(())
    }
}
