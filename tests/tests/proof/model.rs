//! The model check: every order of events, over the real `next`, the real aggregate and the real `step`.
//!
//! Two workers whose leases end, callers who delete at any time, Crossplane, agents, issuer and mesh, and
//! everything that can go violation with each of them. What is checked is what the product decides; the contracts of
//! its ports are the model's own, and each of them is written once, small enough to be read.
//!
//! ```text
//! words ─ what the model speaks in; row, raw_observation ─ how rows and readings are put before the product
//! memo ─ asks the product, once per question, and keeps the answer under a number
//! world ─ what is outside; moves ─ what may happen there by itself
//! pass ─ a worker, from claim to end; adrift ─ what is left of one that was cut off
//! operation ─ what an effect does outside, and whether it should have
//! canonical ─ which states are one
//! continuation ─ from here on nothing goes violation: is everything settled after twelve passes?
//! protocol ─ all of it, as the checker walks through it
//! checks ─ what is checked, and which histories come back without which rule
//! ```

mod adrift;
mod memo;
mod canonical;
mod checks;
mod continuation;
mod operation;
mod cache;
mod moves;
mod pass;
mod protocol;
mod row;
mod rule;
mod raw_observation;
mod words;
mod world;
