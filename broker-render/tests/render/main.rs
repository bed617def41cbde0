//! The render crate from outside: what it makes of good input, of bad input, and of any input.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on ends the test")]

mod cases;
mod cloud_init;
mod composite;
mod definitions;
mod fuzz;
mod goldens;
mod limits;
mod properties;
mod secrets;
mod support;
