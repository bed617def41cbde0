//! The real servers for tests, benchmarks and `cargo xtask up`.
//!
//! [`tools`] finds or builds the programs, [`servers`] starts and stops them, [`up`] keeps a set of them running for a
//! developer. [`agent`] is the agent of a machine.

#![expect(
    clippy::disallowed_methods,
    reason = "this crate starts processes and reads where the machine keeps its programs"
)]

pub mod tools;
pub mod servers;
pub mod up;
pub mod agent;

pub mod failure;
pub mod progress;
mod cache;

pub use broker_app::one_line;
