//! Feature `memory`: adapters that keep everything in this process, for tests and for the demo.
//!
//! They keep the same promises as the real ones and pass the same contract suites.
