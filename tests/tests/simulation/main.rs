//! The simulation tier: the application on in-memory adapters.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod abandon;
mod admission;
mod budget;
mod composition;
mod config_uses;
mod scale;
mod drift;
mod explain;
mod interleavings;
mod log_lines;
mod host_process;
mod metrics_table;
mod orphans;
mod plain_data;
mod purge;
mod references;
mod relay;
mod lease_release;
mod replace;
mod replay;
mod runner;
mod service;
mod unresponsive_ports;
mod spans;
mod status;
mod tags;
mod tenancy;
mod lifetime_paths;
