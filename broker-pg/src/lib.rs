//! Stages 2 and 6 on Postgres: the adapters of repository, schedule, outbox and the neighbours' tables.
//!
//! This is the only library crate that may name `sqlx`. It takes a pool and reads no environment; everything
//! that it owns lies in the schema `plexsphere`, and every name in a statement says so.

mod error;
pub mod migrate;

pub use error::DatabaseError;
