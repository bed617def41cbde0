//! The simulation tier: the application on in-memory adapters.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod abandoning;
mod budget;
mod composition;
mod crowd;
mod drift;
#[path = "../ears.rs"]
mod ears;
mod explain;
mod interleavings;
mod log_lines;
mod manners;
mod measuring;
mod orphans;
#[path = "../paths.rs"]
mod paths;
mod plain_data;
mod purging;
mod references;
mod relaying;
mod releasing;
mod replacing;
mod replay;
mod running;
mod service;
mod silence;
mod spans;
mod status;
mod tags;
mod tenancy;
mod walking;
