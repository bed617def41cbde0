//! Emit: where events go.

use async_trait::async_trait;
use broker_domain::{EventId, EventType, ProvisionedResourceId};

use std::sync::Arc;

use crate::error::PortError;

/// Takes events out of the broker.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Delivers one event.
    ///
    /// **Guarantees of the caller**: events of one resource come in order, each again until it was taken.
    /// Those of different resources come in any order, several at a time.
    ///
    /// **Implementer**: the bytes of the envelope arrive as they are. Durable on the other side when this returns. A second delivery of an event id is
    /// not an error.
    ///
    /// # Errors
    ///
    /// `Rejected` when the other side refuses this very event: it is malformed, too large, or of a kind that
    /// it does not take. That counts as an attempt; after too many the event is set aside. `Transient` and
    /// `Unknown` for everything else, such as an outage, a wrong address or a missing permission: the event
    /// waits and is delivered later, however long that takes.
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError>;
}

#[async_trait]
impl<S: EventSink + ?Sized> EventSink for Arc<S> {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        (**self).deliver(envelope).await
    }
}

/// An event in its envelope: CloudEvents 1.0, structured JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The event's id; also the envelope's.
    pub event_id: EventId,
    /// Its discriminator; also the envelope's type.
    pub event_type: EventType,
    /// Its resource; also the envelope's subject.
    pub resource: ProvisionedResourceId,
    /// Its place among the resource's events.
    pub sequence: u64,
    /// The whole envelope.
    pub json: Vec<u8>,
}

impl Envelope {
    /// An envelope, and what it says on the outside.
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
