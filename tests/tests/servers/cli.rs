//! The binary as a process, on real servers: how it starts, answers, survives and ends.

mod boot;
mod canary;
mod deploy;
mod ending;
mod image;
mod process;
mod readiness;
mod readme;
