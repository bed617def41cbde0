//! Observe and act on Kubernetes: observe, apply, delete and watch on a management cluster.
//!
//! [`KubeCluster`] is the [`Cluster`](broker_ports::Cluster) port over a [`kube::Client`]. It is the only
//! library crate that names `kube`; it chooses no Kubernetes version and no TLS stack.
//!
//! | what | where |
//! |---|---|
//! | one request: deadline, transport, answer | `call`, `answer`, `error` |
//! | where a kind is served, objects by name and by the page, one answer for all who ask | `kinds`, `objects`, `shared` |
//! | what a sweep is answered from, and what wakes a pass | [`cache`], `hints` |
//! | the rights that all of it needs | [`rbac`] |
//! | the port | `read`, `observe`, `inspect`, `owned`, `apply`, `delete` |
//!
//! **Nothing is sent twice.** The adapter repeats no request, and the client that it is given must not
//! either: build it from [`client_config`].
//!
//! **Secrets stay in.** A manifest with a token goes out as bytes; answers to it are scrubbed while the token
//! is at hand.

mod answer;
mod body;
mod call;
mod client;
mod error;
mod kinds;
mod objects;
mod single_flight;

pub mod cache;
mod hints;

mod cluster;

mod inspect;
mod observe;
mod read;

mod apply;
mod delete;
mod owned;

mod rbac;
#[cfg(test)]
mod testing;

pub use call::KubeOptions;
pub use client::client_config;
pub use cluster::KubeCluster;
pub use error::Cause;
pub use rbac::rbac;
