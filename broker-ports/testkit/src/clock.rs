//! The contracts of [`Clock`] and [`IdSource`].

mod cases;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_ports::{Clock, IdSource};

use crate::prelude::*;

/// A clock, and a way to let time pass.
#[async_trait]
pub trait ClockUnderTest: Send + Sync {
    /// The clock.
    fn clock(&self) -> &dyn Clock;

    /// Lets at least this time pass: by turning the clock, or by waiting.
    async fn advance(&self, by: Duration);
}

/// Where ids come from, in two replicas.
pub trait IdSourceUnderTest: Send + Sync {
    /// The source of one replica; another replica each time.
    fn replica(&self) -> Arc<dyn IdSource>;
}

/// Every promise of [`Clock`].
pub fn clock_suite<W: ClockUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::clock_cases())
}

/// Every promise of [`IdSource`].
pub fn id_source_suite<W: IdSourceUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::id_source_cases())
}
