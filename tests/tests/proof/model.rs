//! The model check: every order of events, over the real `next`, the real aggregate and the real `step`.
//!
//! Two workers whose leases end, callers who delete at any time, Crossplane, agents, issuer and mesh, and
//! everything that can go wrong with each of them. What is checked is what the product decides; the contracts of
//! its ports are the model's own, and each of them is written once, small enough to be read.
//!
//! ```text
//! words ─ what the model speaks in; row, sight ─ how rows and readings are put before the product
//! book ─ asks the product, once per question, and keeps the answer under a number
//! world ─ what is outside; moves ─ what may happen there by itself
//! pass ─ a worker, from claim to end; adrift ─ what is left of one that was cut off
//! deed ─ what an effect does outside, and whether it should have
//! canonical ─ which states are one
//! continuation ─ from here on nothing goes wrong: is everything settled after twelve passes?
//! protocol ─ all of it, as the checker walks through it
//! checks ─ what is checked, and which histories come back without which rule
//! ```

mod adrift;
mod book;
mod canonical;
mod checks;
mod continuation;
mod deed;
mod memo;
mod moves;
mod pass;
mod protocol;
mod row;
mod rule;
mod sight;
mod words;
mod world;
