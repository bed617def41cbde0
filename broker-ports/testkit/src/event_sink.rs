//! The contract of [`EventSink`].

mod cases;

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;

use super::cases::suite_of;
use crate::Suite;
use broker_ports::EventSink;
use broker_ports::PortError;

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
    Suite::new(suite_of!(cases {
        what_was_delivered_is_there,
        bytes_arrive_as_they_are,
        events_of_a_resource_keep_their_order,
        a_second_delivery_is_no_error,
        resources_arrive_side_by_side,
        a_delivery_that_was_dropped_leaves_no_half_event,
        a_sink_that_is_cut_off_delivers_nothing,
    }))
}
