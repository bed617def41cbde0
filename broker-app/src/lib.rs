//! The verbs: service, pass, sweep, runner and relay, over the ports. What an embedder takes.
//!
//! It names neither `sqlx` nor `kube`, reads no environment, installs no subscriber and no panic hook, and starts no task
//! that nobody owns.
//!
//! A panic of an adapter is caught and counts as a failed call, but the panic hook of the process runs first, and the
//! standard hook prints the panic's payload. If an adapter's panic could quote a secret, install a hook that prints the
//! location only: `std::panic::set_hook(Box::new(|panic| eprintln!("panicked at {:?}", panic.location())))`.
//!
//! | stage | verb | module |
//! |---|---|---|
//! | 3 observe | reads cluster and mesh | `observe` |
//! | 2, 4, 5 decide | the pure conversation of a pass | [`step`] |
//! | 5 act, 2 persist | performs its effects, one by one | `act` |
//! | all of them | one pass over one resource | [`Reconciler`] |
//! | 6 emit | outbox to sink, in CloudEvents envelopes | [`Relay`] |
//! | all of them | keeps a replica at work, and owns its tasks | [`Runner`] |
//! | 1 declare | the facade that callers see | [`Service`] |
//! | – | says why a resource is where it is | [`explain`] |
//! | – | says what the next pass would do | [`plan`] |
//!
//! [`Broker`] wires all of it together. What it measures is in [`METRICS`]; domain, ports and rendering are
//! re-exported, so that an embedder needs no other crate but its adapters.

mod act;
mod call;
mod config;
mod embed;
mod error;
pub mod explain;
mod home;
mod observe;
mod orphans;
mod pass;
pub mod plan;
mod purge;
mod relay;
mod request;
mod runner;
mod service;
pub mod step;
mod sweep;
mod telemetry;
mod views;

pub use broker_domain as domain;
pub use broker_ports as ports;
pub use broker_render as render;

pub use config::ReconcilerConfig;
pub use embed::{Broker, BrokerConfig};
pub use error::{Error, one_line};
pub use orphans::{Fate, Orphan};
pub use pass::{Passed, Reconciler};
pub use relay::{LogEventSink, Relay, RelayConfig, RelayReport};
pub use runner::{BootError, ConfigError, Probe, ProbeFailure, Runner, RunnerConfig};
pub use service::{Absence, BrakeLosses, BrakeStatus, Service, ServiceConfig, Unread, Waited};
pub use sweep::{SweepReport, Sweeper, Trouble, Work};
pub use telemetry::{Label, METRICS, Metric, MetricKind, describe_metrics};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
