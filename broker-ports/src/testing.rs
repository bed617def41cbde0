//! Feature `testing`: how an implementer finds out that an adapter is right.
//!
//! Each port has a contract suite: named cases, one per promise of the port's documentation. Run it against
//! your own adapter by telling it how to make a fresh one:
//!
//! ```text
//! let report = broker_ports::testing::event_sink::suite().run(async || MyWorld::fresh()).await;
//! report.assert_passed();
//! ```

pub mod builders;
mod cases;
pub mod clock;
pub mod cluster;
pub mod event_sink;
pub mod faults;
pub mod node_deregistrar;
pub mod resolvers;
pub mod store;
mod suite;
pub mod token_issuer;

pub use suite::{Case, Report, Suite, Violation};
