//! The model check: every order of events, over the real `next`, the real aggregate and the real
//! `step`.
//!
//! The state space has two workers whose leases end, callers who delete at any time, Crossplane, agents, issuer and
//! mesh, and every fault of each. The product itself makes every decision; the model only implements the contracts of
//! the ports, each once.
//!
//! ```text
//! vocabulary ─ rows, commands and replies; row, raw_observation ─ how rows and readings reach the product
//! memo ─ calls the product once per input and numbers the results
//! world ─ the environment; environment_moves ─ its spontaneous changes
//! pass ─ a worker, from claim to end; pending ─ requests of a worker that was cut off
//! operation ─ the effect on the environment, and whether it violates a promise
//! canonical ─ which states are equivalent
//! continuation ─ without further faults: is everything settled after twelve passes?
//! protocol ─ the transition system that the checker explores
//! checks ─ the settings, and the counterexample that each disabled rule allows
//! ```

mod pending;
mod memo;
mod canonical;
mod checks;
mod continuation;
mod operation;
mod cache;
mod environment_moves;
mod pass;
mod protocol;
mod row;
mod rule;
mod raw_observation;
mod vocabulary;
mod world;
