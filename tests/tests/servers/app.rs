//! The application on real Postgres and a real API server, with the harness playing Crossplane and the agents.

mod brake;
mod embedding;
mod host;
mod kills;
mod paths;
mod replicas;
mod silence;

/// Whether the big counts are wanted: `cargo xtask test --nightly`.
#[expect(clippy::disallowed_methods, reason = "a test reads what `cargo xtask test` tells it")]
fn is_nightly() -> bool {
    std::env::var_os("BROKER_NIGHTLY").is_some_and(|value| value == "1")
}
