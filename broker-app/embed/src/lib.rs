//! The entry point for a service that embeds the broker.
//!
//! [`Broker::builder`] connects the ports and checks them. [`Broker::run`] runs a replica until its shutdown future
//! resolves. [`Broker::service`] has the methods for callers and operators. [`Broker::in_memory`] needs no server.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `postgres` | [`BrokerBuilder::postgres`], [`provision_in`], and the adapter crate as [`postgres`] |
//! | `kubernetes` | [`BrokerBuilder::kubernetes`], [`kube_cluster`], and the adapter crate as [`kubernetes`] |
//! | `memory` | [`Broker::in_memory`], and the adapter crate as [`memory`] |
//! | `serde` | [serde](https://serde.rs) for the ids, [`Phase`], [`Action`](domain::Action), [`MeshRole`](domain::MeshRole) and [`OnFailure`](domain::OnFailure) |
//!
//! [`ProvisionedResource`], [`Status`], [`explain::Explanation`] and [`plan::Plan`] need no feature: each has a
//! `to_json`. For [`ProvisionedResource`] it is a method of the trait [`ToJson`].
//!
//! # On Postgres and Kubernetes
//!
//! ```no_run
//! # #[cfg(all(feature = "postgres", feature = "kubernetes"))]
//! # async fn embed(pool: sqlx::PgPool, client: kube::Client, shutdown: impl Future<Output = ()> + Send)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use broker_embed::{ApiUrl, Broker};
//!
//! let broker = Broker::builder(ApiUrl::new("https://mesh.example.org")?)
//!     .postgres(pool)
//!     .kubernetes(client)
//!     .build()
//!     .await?;
//! let service = broker.service().clone(); // for the callers
//! broker.run(shutdown).await?;
//! # Ok(())
//! # }
//! ```

mod broker;
mod builder;
pub mod into_port;
#[cfg(feature = "kubernetes")]
mod kube_ports;
mod no_cluster;
#[cfg(feature = "postgres")]
mod pg_ports;

pub use broker::{Broker, BrokerError};
pub use builder::{BrokerBuilder, ClusterPort, Missing, Parts, StorePorts};
pub use into_port::IntoPort;

pub use broker_app::domain::{
    BlueprintVersionId, CloudCredentialId, Declaration, Phase, ProjectId, ProvisionedResource,
    ProvisionedResourceId, RequestId, ResourceId,
};
pub use broker_app::ports::{
    AccessScope, Actor, CorrelationId, Envelope, EventSink, ListQuery, NodeDeregistrar, PortError,
    Ports, RequestContext, TokenIssuer, TraceParent,
};
pub use broker_app::render::ApiUrl;
pub use broker_app::{
    Absence, Basis, BootError, BrakeLosses, BrakeStatus, BrokerConfig, ConfigError, Declared,
    Error, ErrorKind, HoldUp, Label, LogEventSink, METRICS, Metric, MetricKind, Probe,
    ProbeFailure, Service, StartError, Status, SystemClock, SystemIds, ToJson, UnreadResource,
    WaitOutcome, describe_metrics, domain, explain, one_line, plan, ports, render,
};
// The types of `Parts`, and the types that these return.
pub use broker_app::{
    Orphan, OrphanState, PassResult, Reconciler, Relay, RelayReport, ResourceError, SweepReport,
    Sweeper, Work, decide,
};

#[cfg(feature = "kubernetes")]
pub use kube_ports::kube_cluster;
#[cfg(feature = "postgres")]
pub use pg_ports::provision_in;

#[cfg(feature = "kubernetes")]
pub use broker_kube as kubernetes;
#[cfg(feature = "kubernetes")]
pub use broker_kube::client_config;
#[cfg(feature = "memory")]
pub use broker_memory as memory;
#[cfg(feature = "postgres")]
pub use broker_pg as postgres;

/// Compiles the program of this crate's README.
#[cfg(all(doctest, feature = "kubernetes", feature = "postgres"))]
#[doc = include_str!("../README.md")]
struct Readme;
