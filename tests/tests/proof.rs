//! The tier of proofs: what holds in every order of events, for every seed, and for every fault.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

#[path = "proof/model.rs"]
mod model;

/// Whether the big counts are wanted: `cargo xtask test --nightly`.
#[expect(clippy::disallowed_methods, reason = "a test reads what `cargo xtask test` tells it")]
fn is_nightly() -> bool {
    std::env::var_os("BROKER_NIGHTLY").is_some_and(|value| value == "1")
}
