//! Emit: the destination of events.

use async_trait::async_trait;
use broker_domain::{EventId, EventType, ProvisionedResourceId};

use crate::error::PortError;

/// Delivers events to a receiver outside of the broker.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Delivers one event. Delivery is at least once.
    ///
    /// **Guarantees of the caller**: events of one resource arrive in order, and each is repeated until it succeeds.
    /// Events of different resources arrive in any order and concurrently.
    ///
    /// **Implementer**: sends the bytes of the envelope unchanged. The event is durable at the receiver when this
    /// returns. A second delivery of an event id succeeds.
    ///
    /// # Errors
    ///
    /// - `Rejected`: the receiver refuses this event because it is malformed, too large or of an unsupported kind. This
    ///   counts as an attempt; after too many the relay dead-letters the event.
    /// - `Transient` and `Unknown`: everything else, such as an outage, a wrong address or a missing permission. The
    ///   relay retries without a limit.
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError>;
}

/// An event in a CloudEvents 1.0 envelope, as structured JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The event's id; also the envelope's.
    pub event_id: EventId,
    /// Its discriminator; also the envelope's type.
    pub event_type: EventType,
    /// Its resource; also the envelope's subject.
    pub resource: ProvisionedResourceId,
    /// Its position among the resource's events.
    pub sequence: u64,
    /// The whole envelope.
    pub json: Vec<u8>,
}

impl Envelope {
    /// An envelope and its attributes.
    pub const fn new(
        event_id: EventId,
        event_type: EventType,
        resource: ProvisionedResourceId,
        sequence: u64,
        json: Vec<u8>,
    ) -> Self {
        Self { event_id, event_type, resource, sequence, json }
    }
}
