//! The binary as a process on real servers: start, output, failures, shutdown.

mod boot;
mod canary;
mod deploy;
mod ending;
mod image;
mod process;
mod readiness;
mod readme;
