//! The application on real Postgres and a real API server, with the harness playing Crossplane and the agents.

mod between;
mod brake;
mod embedding;
mod explain;
mod guarantees;
mod host;
mod kills;
mod late;
mod paths;
mod replicas;
mod silence;
mod stopping;

/// Whether the big counts are wanted: `cargo xtask test --nightly`.
#[expect(clippy::disallowed_methods, reason = "a test reads what `cargo xtask test` tells it")]
fn is_nightly() -> bool {
    std::env::var_os("BROKER_NIGHTLY").is_some_and(|value| value == "1")
}
