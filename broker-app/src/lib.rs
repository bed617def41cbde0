//! The application of the broker over its ports: service, pass, sweep, runner and relay.
//!
//! The crate does not depend on `sqlx` or `kube`. It reads no environment variables, installs no subscriber and no panic
//! hook, and owns every task that it starts.
//!
//! The broker catches a panic of an adapter and counts it as a failed call. But the panic hook of the process runs first,
//! and the standard hook prints the payload. If a payload could contain a secret, install a hook that prints only the
//! location: `std::panic::set_hook(Box::new(|panic| eprintln!("panicked at {:?}", panic.location())))`.
//!
//! | stage | what it does | module |
//! |---|---|---|
//! | declare | resolves, validates and stores a declaration | `declare` |
//! | reconcile | one pass over one resource: observe, decide, act, persist | `reconcile` |
//! | observe | reads cluster and mesh, and reduces the readings to facts | [`observe`] |
//! | decide | chooses the next effect; pure | [`decide`] |
//! | act | performs the effects on cluster, issuer and mesh | `act` |
//! | persist | stores phase, event and audit line in one transaction | `persist` |
//! | emit | delivers stored events to the sink | `emit` |
//! | sweep | finds resources that need a pass, losses and orphans | `sweep` |
//! | runner | runs the passes, sweeps and relay of a replica | `runner` |
//! | service | has the methods for callers and operators | `service` |
//! | explain | explains what blocks a resource | [`explain`] |
//! | plan | shows the steps of the next pass | [`plan`] |
//!
//! Every part takes the same [`ports::Ports`] and the same [`BrokerConfig`]. The crate `broker-embed` wires them together
//! over Postgres and Kubernetes, and is the crate for embedders. [`METRICS`] lists the metrics.

// The stages of a resource, in order.
mod declare;
mod reconcile;
pub mod observe;
pub mod decide;
mod act;
mod persist;
mod emit;

// The parts that run the stages or report on them.
mod sweep;
mod runner;
mod service;
pub mod explain;
pub mod plan;

// Shared by all modules.
mod config;
mod deadline;
mod error;
mod resource;
mod system;
mod telemetry;

pub use broker_domain as domain;
pub use broker_ports as ports;
pub use broker_render as render;

pub use config::{BrokerConfig, ConfigError};
pub use declare::Declared;
pub use emit::{LogEventSink, Relay, RelayReport};
pub use error::{Error, ErrorKind, one_line};
pub use reconcile::{PassResult, Reconciler};
pub use resource::ToJson;
pub use runner::{BootError, Probe, ProbeFailure, Runner, StartError};
pub use service::{
    Absence, Basis, BrakeLosses, BrakeStatus, HoldUp, Service, Status, UnreadResource, WaitOutcome,
};
pub use sweep::{Orphan, OrphanState, ResourceError, SweepReport, Sweeper, Work};
pub use system::{SystemClock, SystemIds};
pub use telemetry::{Label, METRICS, Metric, MetricKind, describe_metrics};
