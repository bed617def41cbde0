//! The contract of [`EventSink`].

mod cases;

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;
use broker_ports::EventSink;

use crate::prelude::*;

/// A sink, and a look at its other side.
#[async_trait]
pub trait EventSinkUnderTest: Send + Sync {
    /// The sink.
    fn sink(&self) -> &dyn EventSink;

    /// The envelopes of a resource that have arrived on the other side, byte for byte, in their order. A
    /// second delivery may be there or be left out.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn received(&self, resource: ProvisionedResourceId) -> Result<Vec<Vec<u8>>, PortError>;

    /// Cuts the sink off for the rest of the case from whatever it hands events to: closes its pool, stops
    /// its server.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Every promise of [`EventSink`].
pub fn suite<W: EventSinkUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::cases())
}
