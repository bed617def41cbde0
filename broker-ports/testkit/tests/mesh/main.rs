//! Every in-memory adapter of issuer, mesh, sink, clock, ids and resolvers passes its contract suite.

#![expect(clippy::unwrap_used, reason = "a failed test helper fails the test")]

mod passing;
mod worlds;
