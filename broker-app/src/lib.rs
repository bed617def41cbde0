//! The verbs: service, pass, sweep, runner and relay, over the ports. What an embedder takes.
//!
//! It names neither `sqlx` nor `kube`, reads no environment, installs no subscriber and no panic hook, and starts no task
//! that nobody owns.
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
//! [`Broker`] wires all of it together. What it measures is in [`METRICS`]; domain, ports and rendering are
//! re-exported, so that an embedder needs no other crate but its adapters.

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
mod deadline;
mod config;
mod embed;
mod error;
mod telemetry;

pub use broker_domain as domain;
pub use broker_ports as ports;
pub use broker_render as render;

pub use config::ReconcilerConfig;
pub use embed::{Broker, BrokerConfig};
pub use emit::{LogEventSink, Relay, RelayConfig, RelayReport};
pub use error::{Error, one_line};
pub use reconcile::{Passed, Reconciler};
pub use runner::{BootError, ConfigError, Probe, ProbeFailure, Runner, RunnerConfig};
pub use service::{Absence, BrakeLosses, BrakeStatus, Service, ServiceConfig, Unread, Waited};
pub use sweep::{Fate, Orphan, SweepReport, Sweeper, Trouble, Work};
pub use telemetry::{Label, METRICS, Metric, MetricKind, describe_metrics};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
