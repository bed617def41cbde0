//! The binary as a process on real servers: start, output, failures, shutdown.

mod boot;
mod secret_leaks;
mod deploy;
mod shutdown;
mod image;
mod process;
mod readiness;
mod readme;
