//! The model check: every order of events, over the real `next`, the real aggregate and the real `step`.
//!
//! Two workers whose leases end, callers who delete at any time, Crossplane, agents, issuer and mesh, and
//! everything that can go wrong with each of them. What is checked is what the product decides; the contracts of
//! its ports are the model's own, and each of them is written once, small enough to be read.
//!
//! ```text
//! book ─ asks the product, once per question, and keeps the answer under a number
//! world ─ what is outside, and what may happen there by itself
//! pass ─ a worker, from claim to end or to the moment at which it is cut off
//! deed ─ what an effect does outside, and whether it should have
//! continuation ─ from here on nothing goes wrong: is everything settled after twelve passes?
//! protocol ─ all of it, as the checker walks through it
//! checks ─ what is checked, and which histories come back without which rule
//! ```

#[path = "model/book.rs"]
mod book;
#[path = "model/checks.rs"]
mod checks;
#[path = "model/continuation.rs"]
mod continuation;
#[path = "model/deed.rs"]
mod deed;
#[path = "model/memo.rs"]
mod memo;
#[path = "model/pass.rs"]
mod pass;
#[path = "model/protocol.rs"]
mod protocol;
#[path = "model/rule.rs"]
mod rule;
#[path = "model/world.rs"]
mod world;
