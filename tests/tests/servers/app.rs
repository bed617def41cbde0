//! The application on real Postgres and a real API server; the harness simulates Crossplane and the
//! agents.

mod server_proxies;
mod brake;
mod embedding;
mod explain;
mod guarantees;
mod host;
mod kills;
mod late_requests;
mod config_uses;
mod enrolment;
mod external_crates;
mod replicas;
