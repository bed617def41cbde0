//! The envelope of an event: CloudEvents 1.0, structured JSON.

use broker_ports::{ClaimedEvent, Envelope, PortError, PortName, wire};
use serde_json::{Value, json};

use crate::error::Error;

/// The event in its envelope, with the committed data unchanged.
///
/// # Errors
///
/// `event_sink_rejected`: a retry of the same event fails in the same way.
pub(super) fn envelope(source: &str, event: &ClaimedEvent) -> Result<Envelope, Error> {
    let invalid = |what: &str| {
        let source =
            PortError::rejected(format!("the event's {what} cannot be put into an envelope"));
        Error::Port { port: PortName::EventSink, source }
    };
    let data: Value = serde_json::from_slice(&event.payload).map_err(|_| invalid("payload"))?;
    let time = wire::rfc3339(event.occurred_at);
    // CloudEvents requires a source, and a time that RFC 3339 can express.
    if source.is_empty() || time.starts_with('@') {
        return Err(invalid("attributes"));
    }
    let mut cloud_event = json!({
        "specversion": "1.0",
        "id": event.claim.event_id.to_string(),
        "source": source,
        "type": event.event_type.as_str(),
        "subject": event.resource.to_string(),
        "time": time,
        "sequence": event.sequence.to_string(),
        "datacontenttype": "application/json",
        "data": data,
    });
    // The extension "Distributed Tracing".
    if let Some(traceparent) = &event.traceparent {
        cloud_event["traceparent"] = traceparent.as_str().into();
    }
    Ok(Envelope::new(
        event.claim.event_id,
        event.event_type,
        event.resource,
        event.sequence,
        cloud_event.to_string().into_bytes(),
    ))
}

#[cfg(test)]
mod tests {
    use broker_domain::{EventId, EventType};
    use broker_ports::{EventClaim, TraceParent, WorkerId};
    use cloudevents::{AttributesReader as _, Data, Event};
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    fn claimed(occurred_at: OffsetDateTime, payload: &str) -> ClaimedEvent {
        let id = EventId::new(Uuid::from_u128(0xe0)).unwrap();
        let claim = EventClaim::new(id, WorkerId::new("relay").unwrap(), 1);
        let resource = Uuid::from_u128(0x5).try_into().unwrap();
        let payload = payload.as_bytes().to_vec();
        ClaimedEvent::new(claim, 0, resource, 7, EventType::Ready, occurred_at, payload)
    }

    #[test]
    fn cloudevents_sdk_reads_each_attribute_of_the_envelope() {
        let at = OffsetDateTime::from_unix_timestamp_nanos(1_790_000_000_120_000_000).unwrap();
        let envelope = envelope("/a \"b\"", &claimed(at, r#"{"sequence":7}"#)).unwrap();
        let read: Event = serde_json::from_slice(&envelope.json).unwrap();
        assert_eq!(read.specversion().to_string(), "1.0");
        assert_eq!(read.id(), "00000000-0000-0000-0000-0000000000e0");
        assert_eq!(read.source(), "/a \"b\"");
        assert_eq!(read.ty(), EventType::Ready.as_str());
        assert_eq!(read.subject(), Some("00000000-0000-0000-0000-000000000005"));
        assert_eq!(read.time().unwrap().timestamp_nanos_opt(), Some(1_790_000_000_120_000_000));
        assert_eq!(read.datacontenttype(), Some("application/json"));
        assert_eq!(read.data(), Some(&Data::Json(json!({"sequence": 7}))));
        let extensions: Vec<_> = read.iter_extensions().collect();
        assert_eq!(extensions, [("sequence", &"7".into())]);
    }

    #[test]
    fn envelope_has_the_traceparent_of_its_event() {
        let trace =
            TraceParent::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        let event = claimed(OffsetDateTime::UNIX_EPOCH, "{}").in_trace(Some(trace.clone()));
        let read: Event = serde_json::from_slice(&envelope("/a", &event).unwrap().json).unwrap();
        assert_eq!(read.extension("traceparent"), Some(&trace.as_str().into()));
    }

    #[test]
    fn event_that_cloudevents_cannot_express_is_rejected() {
        let (now, year_0) = (OffsetDateTime::UNIX_EPOCH, time::Date::MIN.midnight().assume_utc());
        for (source, at, payload, what) in [
            ("", now, "{}", "attributes"),
            ("/a", year_0, "{}", "attributes"),
            ("/a", now, "{", "payload"),
        ] {
            let error = envelope(source, &claimed(at, payload)).unwrap_err();
            assert!(format!("{error:?}").contains(what), "{what}: {error:?}");
        }
    }
}
