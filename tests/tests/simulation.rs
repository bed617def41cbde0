//! The tier of simulations: the application on in-memory adapters.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

#[path = "simulation/abandoning.rs"]
mod abandoning;
#[path = "simulation/budget.rs"]
mod budget;
#[path = "simulation/composition.rs"]
mod composition;
#[path = "simulation/crowd.rs"]
mod crowd;
#[path = "simulation/drift.rs"]
mod drift;
#[path = "simulation/explain.rs"]
mod explain;
#[path = "simulation/interleavings.rs"]
mod interleavings;
#[path = "simulation/log_lines.rs"]
mod log_lines;
#[path = "simulation/logs.rs"]
mod logs;
#[path = "simulation/manners.rs"]
mod manners;
#[path = "simulation/measuring.rs"]
mod measuring;
#[path = "simulation/nested.rs"]
mod nested;
#[path = "simulation/orphans.rs"]
mod orphans;
mod paths;
#[path = "simulation/plain_data.rs"]
mod plain_data;
#[path = "simulation/purging.rs"]
mod purging;
#[path = "simulation/references.rs"]
mod references;
#[path = "simulation/relaying.rs"]
mod relaying;
#[path = "simulation/releasing.rs"]
mod releasing;
#[path = "simulation/replacing.rs"]
mod replacing;
#[path = "simulation/replay.rs"]
mod replay;
#[path = "simulation/running.rs"]
mod running;
#[path = "simulation/service.rs"]
mod service;
#[path = "simulation/silence.rs"]
mod silence;
#[path = "simulation/tags.rs"]
mod tags;
#[path = "simulation/tenancy.rs"]
mod tenancy;
#[path = "simulation/paths.rs"]
mod walking;
