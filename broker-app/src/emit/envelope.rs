//! The envelope of an event: CloudEvents 1.0, structured JSON.

use broker_ports::{ClaimedEvent, Envelope, PortError, PortName, wire};
use cloudevents::{EventBuilder, EventBuilderV10};

use crate::error::Error;

/// The event in its envelope. Its data is what was committed, unchanged.
///
/// # Errors
///
/// `event_sink_rejected`: the same event fails the same way however often it is tried.
pub(super) fn envelope(source: &str, event: &ClaimedEvent) -> Result<Envelope, Error> {
    let unfit = |what: &str| {
        let source =
            PortError::rejected(format!("the event's {what} cannot be put into an envelope"));
        Error::Port { port: PortName::EventSink, source }
    };
    let data: serde_json::Value =
        serde_json::from_slice(&event.payload).map_err(|_| unfit("payload"))?;
    let cloud_event = EventBuilderV10::new()
        .id(event.claim.event_id.to_string())
        .source(source)
        .ty(event.event_type.as_str())
        .subject(event.resource.to_string())
        .time(wire::rfc3339(event.occurred_at))
        .extension("sequence", event.sequence.to_string())
        .data("application/json", data)
        .build()
        .map_err(|_| unfit("attributes"))?;
    Ok(Envelope::new(
        event.claim.event_id,
        event.event_type,
        event.resource,
        event.sequence,
        serde_json::to_vec(&cloud_event).map_err(|_| unfit("envelope"))?,
    ))
}
