//! The contract of [`EventSink`].

mod cases;

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;
use broker_ports::EventSink;

use crate::prelude::*;

/// A sink, and access to its receiver.
#[async_trait]
pub trait EventSinkUnderTest: Send + Sync {
    /// The sink.
    fn sink(&self) -> &dyn EventSink;

    /// The bytes of the received envelopes of a resource, in order. Repeated deliveries may be included or not.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn received(&self, resource: ProvisionedResourceId) -> Result<Vec<Vec<u8>>, PortError>;

    /// Makes the receiver unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// The contract of [`EventSink`].
pub fn suite<W: EventSinkUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::cases())
}
