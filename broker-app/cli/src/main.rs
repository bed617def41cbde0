//! `provisioning-broker`: see `provisioning-broker --help`.

mod cli;
mod demo;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
