//! The harness of every test that crosses crates: real servers, and proxies that a test can script.
//!
//! | you need | take |
//! |---|---|
//! | a database of your own | [`TestPostgres::shared`], [`TestPostgres::database`] |
//! | a Postgres to kill, stop or flood | [`TestPostgres::dedicated`] |
//! | a namespace of your own on a real API server | [`TestCluster::shared`], [`TestCluster::namespace`] |
//! | an owner that waits for its dependents | [`collector::create_and_wait_until_collected`] |
//! | an API server, etcd or garbage collector to kill | [`TestCluster::dedicated`] |
//! | to be somebody else on the API server | [`TestCluster::identity`] |
//! | to be the broker there, with its generated roles | [`rights::BrokerIdentity`] |
//! | to know who asked the API server for what | [`TestCluster::audit_log`] |
//! | a commit whose answer is lost, a request that hangs | [`PgProxy`], [`HttpProxy`] |
//! | Crossplane, undisturbed or to kill | [`TestCluster::with_crossplane`], [`TestCluster::with_crossplane_alone`] |
//! | the binary on Crossplane, with agents that boot | [`crossplane::Installation`] |
//! | to look for secrets in what was said or stored | [`canary::Net`], [`canary::rows`] |
//! | the XRD of a kind | [`documents::xrd`] |
//! | to type what README says | [`readme::Home`] |
//! | the whole broker in memory, or on real servers | [`world::World`], [`real::RealWorld`] |
//!
//! Servers that were started by `cargo xtask test` are shared by all test processes; a test binary
//! that is run in another way starts its own. A server that cannot be had fails the test in one
//! line; nothing is ever skipped. For that reason the harness panics instead of returning errors:
//! to a test they are all the same.

#![expect(
    clippy::disallowed_methods,
    reason = "a test process is a composition root: it reads its environment and ends itself"
)]

pub mod canary;
pub mod cluster;
pub mod collector;
pub mod crossplane;
pub mod documents;
pub mod postgres;
pub mod proxy;
pub mod readme;
pub mod real;
pub mod rights;
pub mod world;

mod control;
mod failure;
mod shared;
mod wait;

/// How many passes everything may take until it is settled, once nothing goes wrong any more: the one constant of every
/// check of liveness.
pub const K: u8 = 12;

/// Whether the big counts are wanted: `cargo xtask test --nightly`.
#[must_use]
pub fn is_nightly() -> bool {
    std::env::var_os("BROKER_NIGHTLY").is_some_and(|value| value == "1")
}

/// What an API server without Crossplane is told about the kinds of a blueprint.
pub use broker_test_servers::servers::crd;
pub use cluster::{DedicatedCluster, TestCluster, TestNamespace};
pub use control::Control;
pub use postgres::{DedicatedPostgres, Template, TestDatabase, TestPostgres};
pub use proxy::{HttpProxy, PgProxy};
pub use wait::until;
