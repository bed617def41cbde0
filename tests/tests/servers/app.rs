//! The application on real Postgres and a real API server; the harness simulates Crossplane and the
//! agents.

mod between;
mod brake;
mod embedding;
mod explain;
mod guarantees;
mod host;
mod kills;
mod late;
mod noticed;
mod outside;
mod replicas;
