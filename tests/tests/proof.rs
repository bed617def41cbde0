//! The tier of proofs: what holds in every order of events, for every seed, and for every fault.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

#[path = "proof/canaries.rs"]
mod canaries;
#[path = "proof/matrix.rs"]
mod matrix;
#[path = "proof/model.rs"]
mod model;
#[path = "proof/panics.rs"]
mod panics;
#[path = "proof/simulation.rs"]
mod simulation;

#[expect(clippy::disallowed_methods, reason = "a test reads what `cargo xtask` tells it")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
