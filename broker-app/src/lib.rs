//! The verbs: service, pass, sweep, runner and relay, over the ports. What an embedder takes.
//!
//! It names neither `sqlx` nor `kube`, reads no environment, installs no subscriber, and starts no task that
//! nobody owns.
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

mod act;
mod call;
mod config;
mod error;
mod observe;
mod pass;
mod relay;
mod runner;
mod service;
pub mod step;
mod sweep;
mod views;

pub use config::ReconcilerConfig;
pub use error::{Error, one_line};
pub use pass::{Passed, Reconciler};
pub use relay::{LogEventSink, Relay, RelayConfig, RelayReport};
pub use runner::{BootError, Probe, ProbeFailure, Runner, RunnerConfig};
pub use service::{Service, ServiceConfig, Waited};
pub use sweep::{SweepReport, Sweeper, Trouble, Work};
