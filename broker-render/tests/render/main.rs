//! Tests of the render crate's public API: valid input, invalid input, and arbitrary input.

#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod cases;
mod cloud_init;
mod composite;
mod definitions;
mod fuzz;
mod goldens;
mod import;
mod limits;
mod properties;
mod secrets;
mod support;
