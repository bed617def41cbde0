//! Observe, apply, delete and watch objects on a management cluster.
//!
//! [`KubeCluster`] implements the [`Cluster`](broker_ports::Cluster) port over a [`kube::Client`]. This is the only
//! library crate that names `kube`. It chooses no Kubernetes version and no TLS stack.
//!
//! | what | where |
//! |---|---|
//! | one request: deadline, transport, response | `call`, `response`, `error` |
//! | endpoints of kinds, reads by name and by page, single-flight | `kinds`, `objects`, `single_flight` |
//! | the watch cache for sweeps, and the hints | [`cache`], `hints` |
//! | the required roles | [`rbac`] |
//! | the port | `read`, `observe`, `inspect`, `owned`, `apply`, `delete` |
//!
//! **No automatic retries.** The adapter sends each request once, and so must its client: build it from
//! [`client_config`].
//!
//! **No secret in a message.** A manifest with a token is sent as bytes, and its token is removed from every message
//! about the response.

mod body;
mod call;
mod client;
mod error;
mod kinds;
mod objects;
mod response;
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
