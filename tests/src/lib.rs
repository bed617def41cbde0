//! The harness of every test that crosses crates: real servers, scriptable proxies, and worlds that wire
//! the whole broker.
//!
//! | you need | take |
//! |---|---|
//! | a private database | [`TestPostgres::shared`], [`TestPostgres::database`] |
//! | a Postgres to kill, stop or flood | [`TestPostgres::dedicated`] |
//! | a private namespace on a real API server | [`TestCluster::shared`], [`TestCluster::namespace`] |
//! | an owner that waits for its dependents | [`collector::create_and_wait_for_collector`] |
//! | an API server, etcd or garbage collector to kill | [`TestCluster::dedicated`] |
//! | another identity on the API server | [`TestCluster::identity`] |
//! | the broker's identity, with its generated roles | [`rights::BrokerIdentity`] |
//! | the requests that the API server received, by user | [`TestCluster::audit_log`] |
//! | a lost answer to a commit, a request that hangs | [`PgProxy`], [`HttpProxy`] |
//! | Crossplane, undisturbed or to kill | [`TestCluster::with_crossplane`], [`TestCluster::with_exclusive_crossplane`] |
//! | the binary on Crossplane, with agents that boot | [`crossplane::Installation`] |
//! | a search for secrets in logs and stored data | [`secret_search::LeakDetector`], [`secret_search::table_texts`] |
//! | the log of a test, the names of its metrics | [`log::Log`], [`log::MetricsCapture`] |
//! | the XRD of a kind | [`documents::xrd`] |
//! | the commands of a page in a shell | [`pages::Home`] |
//! | the whole broker in memory, or on real servers | [`world::World`], [`real::RealWorld`] |
//!
//! All test processes share the servers that `cargo xtask test` started; a test binary that runs in another
//! way starts its own. A server that cannot start fails the test with one line; no test is skipped. The
//! harness panics instead of returning errors: no test handles them.

#![expect(
    clippy::disallowed_methods,
    reason = "a test process is a composition root: it reads its environment and ends itself"
)]
#![expect(clippy::missing_panics_doc, reason = "the harness panics instead of returning errors")]

pub mod secret_search;
pub mod cluster;
pub mod collector;
pub mod crossplane;
pub mod documents;
pub mod log;
pub mod pages;
pub mod postgres;
pub mod proxy;
pub mod real;
pub mod rights;
pub mod world;

mod control;
mod failure;
mod shared;
mod wait;

/// The maximum number of passes after the last fault until everything is settled. All liveness checks use it.
pub const K: u8 = 12;

/// Whether the nightly counts are requested: `cargo xtask test --nightly`.
#[must_use]
pub fn is_nightly() -> bool {
    std::env::var_os("BROKER_NIGHTLY").is_some_and(|value| value == "1")
}

/// The CRDs of a blueprint's kinds, for an API server without Crossplane.
pub use broker_test_servers::servers::crd;
pub use cluster::{DedicatedCluster, TestCluster, TestNamespace};
pub use control::Control;
pub use postgres::{DedicatedPostgres, Template, TestDatabase, TestPostgres};
pub use proxy::{HttpProxy, PgProxy};
pub use wait::until;
