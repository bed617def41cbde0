//! Persist and emit on Postgres: the adapters of repository, schedule, outbox and the platform contexts' tables.
//!
//! This is the only library crate that may name `sqlx`. It takes a pool and reads no environment. Everything that it
//! owns is in the schema `plexsphere`, and every statement qualifies its names.
//!
//! | for | use |
//! |---|---|
//! | the broker's store: repository, schedule, outbox, audit | [`PgStore`] |
//! | a declaration inside your own transaction | [`create_in`] |
//! | the schema | [`migrate`] |
//! | pool options for a database that may stop responding | [`test_idle_connections`] |
//! | resolvers, assignments and labels over the reference tables | [`PgPlatform`] |
//! | bootstrap tokens, and the mesh ports over them | [`PgTokenIssuer`], [`PgMesh`] |
//! | publishing a blueprint catalog | [`catalog`] |
//!
//! # Features
//!
//! - `tls-ring`: TLS to the database. The pool's connect options decide whether TLS is used and which certificates
//!   are trusted.

mod assignments;
mod audit;
pub mod catalog;
mod error;
mod labels;
mod mesh;
pub mod migrate;
mod outbox;
mod pool;
mod repository;
mod resolvers;
mod schedule;
mod sql;
mod statements;
mod store;
mod token_issuer;
mod transaction;
mod values;

pub use error::DatabaseError;
pub use mesh::{ChainedNodeDeregistrar, EnrolError, JoinError, PgMesh};
pub use pool::test_idle_connections;
pub use repository::create::create_in;
pub use resolvers::PgPlatform;
pub use sql::StatementDescription;
pub use statements::statements;
pub use store::PgStore;
pub use token_issuer::PgTokenIssuer;
