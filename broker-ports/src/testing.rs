//! Feature `testing`: how an implementer finds out that an adapter is right.
//!
//! Each port has a contract suite: named cases, one per promise of the port's documentation. Run it against
//! your own adapter by telling it how to make a fresh one:
//!
//! ```text
//! let report = broker_ports::testing::store::suite().run(|| async { MyStore::fresh().await }).await;
//! report.assert_passed();
//! ```

mod suite;

pub use suite::{Case, Report, Suite, Violation};
