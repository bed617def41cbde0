//! The contracts of [`Clock`] and [`IdSource`].

mod cases;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_ports::{Clock, IdSource};

use crate::prelude::*;

/// A clock and a hook that advances it.
#[async_trait]
pub trait ClockUnderTest: Send + Sync {
    /// The clock.
    fn clock(&self) -> &dyn Clock;

    /// Advances by at least this duration: sets the clock or waits.
    async fn advance(&self, by: Duration);
}

/// An id source with several replicas.
pub trait IdSourceUnderTest: Send + Sync {
    /// The source of another replica on each call.
    fn replica(&self) -> Arc<dyn IdSource>;
}

/// The contract of [`Clock`].
pub fn clock_suite<W: ClockUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::clock_cases())
}

/// The contract of [`IdSource`].
pub fn id_source_suite<W: IdSourceUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::id_source_cases())
}
