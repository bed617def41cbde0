//! The tier of simulations: the application on in-memory adapters.

#[path = "simulation/paths.rs"]
mod paths;
#[path = "simulation/running.rs"]
mod running;
