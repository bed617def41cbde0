//! The workspace's tasks, and the real servers that its tests run on.
//!
//! `cargo xtask` is a thin binary over [`run`]; `broker-tests` uses [`servers`] and [`tools`] from
//! within its tests.

#![expect(
    clippy::disallowed_methods,
    reason = "xtask is a composition root: it owns its environment and its exit code"
)]

mod cli;
mod error;
mod workspace;

mod cache;
mod child;
mod progress;
pub mod servers;
pub mod tools;

mod bench;
mod docs;
mod down;
mod lint;
mod prove;
mod simulate;
mod test;
mod tidy;
mod up;

pub use cli::run;
pub use error::one_line;
