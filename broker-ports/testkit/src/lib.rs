//! Contract suites: they check an adapter against the guarantees of its port.
//!
//! Each port has a suite of named cases, one per guarantee of its documentation. Run it against your adapter with a
//! function that creates a fresh one:
//!
//! ```
//! # fn main() {
//! # use async_trait::async_trait;
//! # use broker_domain::ProvisionedResourceId;
//! # use broker_memory::RecordingEventSink as MySink;
//! # use broker_testkit::event_sink::EventSinkUnderTest;
//! # use broker_ports::{EventSink, PortError};
//! # struct MyWorld { sink: MySink }
//! # impl MyWorld {
//! #     fn fresh() -> Self { Self { sink: MySink::default() } }
//! # }
//! # #[async_trait]
//! # impl EventSinkUnderTest for MyWorld {
//! #     fn sink(&self) -> &dyn EventSink { &self.sink }
//! #     async fn received(
//! #         &self,
//! #         resource: ProvisionedResourceId,
//! #     ) -> Result<Vec<Vec<u8>>, PortError> {
//! #         let deliveries = self.sink.deliveries_of(resource);
//! #         Ok(deliveries.into_iter().map(|envelope| envelope.json).collect())
//! #     }
//! #     async fn cut_off(&self) -> Result<(), PortError> {
//! #         self.sink.set_reachable(false);
//! #         Ok(())
//! #     }
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! # runtime.block_on(async {
//! let report = broker_testkit::event_sink::suite().run(async || MyWorld::fresh()).await;
//! report.assert_passed();
//! # });
//! # }
//! ```
//!
//! `MyWorld` creates a fresh adapter and gives access to its backend; each suite has a trait for it. A case that
//! exceeds [`TIMEOUT`], or the timeout of [`Suite::with_timeout`], fails under its name.

pub mod builders;
mod prelude;
pub mod clock;
pub mod cluster;
pub mod event_sink;
pub mod faults;
pub mod node_deregistrar;
pub mod resolvers;
pub mod store;
mod suite;
pub mod token_issuer;

pub use suite::{Case, Report, Suite, TIMEOUT, Violation};
