//! Stages 2 and 6 on Postgres: the adapters of repository, schedule, outbox and the neighbours' tables.
//!
//! This is the only library crate that may name `sqlx`. It takes a pool and reads no environment; everything
//! that it owns lies in the schema `plexsphere`, and every name in a statement says so.

mod assignments;
pub mod catalog;
mod error;
mod labels;
mod mesh;
pub mod migrate;
mod resolvers;
mod token_issuer;
mod transaction;

pub use error::DatabaseError;
pub use mesh::{EnrolError, JoinError, PgMesh};
pub use resolvers::PgNeighbours;
pub use token_issuer::PgTokenIssuer;
