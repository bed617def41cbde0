//! The proof tier: promises checked for every order of events, every seed and every fault.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod secret_leaks;
mod matrix;
mod model;
mod panics;
mod shared_config;
mod simulation;

#[expect(clippy::disallowed_methods, reason = "a test reads what `cargo xtask` tells it")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
