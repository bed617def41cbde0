//! The application on real Postgres and a real API server, with the harness playing Crossplane and the agents.

mod brake;
mod embedding;
mod paths;
