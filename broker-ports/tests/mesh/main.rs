//! The contract suites of issuer, mesh, sink, clock, ids and resolvers: every in-memory adapter passes, and
//! every adapter that breaks a promise is caught by a named case.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on ends the test")]

mod broken;
mod chained;
mod concurrency;
#[path = "../common/coverage.rs"]
mod coverage;
mod flawed_issuer;
mod flawed_mesh;
mod flawed_neighbours;
mod flawed_others;
#[path = "../common/half_way.rs"]
mod half_way;
mod passing;
mod transparent;
mod worlds;
