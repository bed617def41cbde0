//! The workspace's tasks. `cargo xtask` is a thin binary over [`run`].

#![expect(
    clippy::disallowed_methods,
    reason = "xtask is a composition root: it owns its environment and its exit code"
)]

mod cli;
mod page;
mod workspace;

mod bench;
mod docs;
mod lint;
mod prove;
mod simulate;
mod surface;
mod test;
mod tidy;

pub use cli::run;
