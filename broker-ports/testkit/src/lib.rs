//! Feature `testing`: how an implementer finds out that an adapter is right.
//!
//! Each port has a contract suite: named cases, one per promise of the port's documentation. Run it against
//! your own adapter by telling it how to make a fresh one:
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
//! `MyWorld` is whatever can make a fresh adapter and look at the other side of it: each suite has a trait
//! for that. A case that hangs fails by its name, after [`PATIENCE`] or what
//! [`Suite::with_patience`] was told.

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

pub use suite::{Case, PATIENCE, Report, Suite, Violation};
