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

/// Whether the big counts are wanted: `cargo xtask test --nightly`.
fn is_nightly() -> bool {
    environment("BROKER_NIGHTLY").is_some_and(|value| value == "1")
}

#[expect(clippy::disallowed_methods, reason = "a test reads what `cargo xtask` tells it")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
