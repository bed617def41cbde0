//! The contract suites of issuer, mesh, sink, clock, ids and resolvers: every in-memory adapter passes.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on ends the test")]

mod passing;
mod worlds;
