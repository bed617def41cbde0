//! The verbs: service, pass, sweep, runner and relay, over the ports. What an embedder takes.
//!
//! What stands today are the decisions of a pass ([`step`]); the parts that perform them follow. It names
//! neither `sqlx` nor `kube`.

pub mod step;
