//! Stages 2 and 6 on Postgres: the adapters of repository, schedule, outbox and the neighbours' tables.
//!
//! Empty until the ports are settled. This is the only library crate that may name `sqlx`.
