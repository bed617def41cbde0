//! The stages of a resource, and what runs them, over the ports: service, pass, sweep, runner and relay.
//! It names neither `sqlx` nor `kube`, reads no environment, installs no subscriber and no panic hook, and owns
//! every task that it starts.
//!
//! A panic of an adapter is caught and counts as a failed call, but the panic hook of the process runs first, and the
//! standard hook prints the panic's payload. If an adapter's panic could quote a secret, install a hook that prints the
//! location only: `std::panic::set_hook(Box::new(|panic| eprintln!("panicked at {:?}", panic.location())))`.
//!
//! | stage | what it does | module |
//! |---|---|---|
//! | declare | resolves, validates and stores a declaration | `declare` |
//! | reconcile | one pass over one resource: observe, decide, act, persist | `reconcile` |
//! | observe | reads cluster and mesh, and reduces them to facts | [`observe`] |
//! | decide | what to do next: pure | [`decide`] |
//! | act | sends what was decided to cluster, issuer and mesh | `act` |
//! | persist | stores phase, event and audit line in one transaction | `persist` |
//! | emit | delivers stored events to the sink | `emit` |
//! | sweep | finds what needs a pass, what is lost, and orphans | `sweep` |
//! | runner | keeps a replica at work, and owns its tasks | `runner` |
//! | service | the methods that callers and operators use | `service` |
//! | explain | says why a resource is where it is | [`explain`] |
//! | plan | says what the next pass would do | [`plan`] |
//!
//! Every part takes the same [`ports::Ports`] and the same [`BrokerConfig`]. The crate `broker-embed` wires them together
//! over Postgres and Kubernetes, and is the one that embedders take. [`METRICS`] lists what is measured.

// The stages of a resource, in order.
mod declare;
mod reconcile;
pub mod observe;
pub mod decide;
mod act;
mod persist;
mod emit;

// What runs them and what reports on them.
mod sweep;
mod runner;
mod service;
pub mod explain;
pub mod plan;

// Shared by all.
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
pub use emit::{LogEventSink, Relay, RelayReport};
pub use error::{Error, ErrorKind, one_line};
pub use reconcile::{PassResult, Reconciler};
pub use resource::ToJson;
pub use runner::{BootError, Probe, ProbeFailure, Runner, StartError};
pub use service::{
    Absence, Basis, BrakeLosses, BrakeStatus, HoldUp, Service, Status, Unread, WaitOutcome,
};
pub use sweep::{Orphan, OrphanState, ResourceError, SweepReport, Sweeper, Work};
pub use system::{SystemClock, SystemIds};
pub use telemetry::{Label, METRICS, Metric, MetricKind, describe_metrics};
