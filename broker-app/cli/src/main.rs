//! `provisioning-broker`: see `provisioning-broker --help`, or docs/cli.md.

mod catalog;
mod cli;
mod compose;
mod composition;
mod demo;
mod event_sink;
mod failure;
mod output;
mod parameters;
mod program;
mod run;
mod serve;
mod settings;
mod terminal;
#[cfg(test)]
mod testing;
mod verbs;

use std::io::{stderr, stdin, stdout};
use std::process::ExitCode;

use compose::Servers;
use program::Surroundings;

fn main() -> ExitCode {
    let exit = program::run(
        std::env::args_os(),
        Surroundings {
            environment: &settings::environment,
            composition: &Servers,
            stdin: &mut stdin(),
            stdout: &mut stdout(),
            stderr: &mut stderr(),
        },
    );
    exit.into()
}
