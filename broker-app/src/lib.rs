//! The verbs: service, pass, sweep, runner and relay, over the ports. What an embedder takes.
//!
//! Empty until the ports are settled. It names neither `sqlx` nor `kube`.
