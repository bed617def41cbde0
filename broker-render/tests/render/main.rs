//! The render crate from outside: what it makes of good input, of bad input, and of any input.

mod bad_input;
mod bounds;
mod catalog;
mod cloud_init;
mod fuzz;
mod goldens;
mod pairs;
mod properties;
mod secrets;
mod support;
