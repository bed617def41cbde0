//! The program `provisioning-broker`: `main`, the process environment and the panic hook.

mod catalog;
mod cli;
mod compose;
mod wiring;
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

use std::io::{Write as _, stderr, stdin, stdout};
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use compose::Servers;
use program::Environment;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(report_panic));
    let exit = program::run(
        std::env::args_os(),
        Environment {
            variables: &settings::environment,
            wiring: &Servers,
            stdin: &mut stdin(),
            stdout: &mut stdout(),
            stderr: &mut stderr(),
        },
    );
    exit.into()
}

/// Reports where a thread panicked, without the payload: it may quote a token or a connection string.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map_or_else(String::new, |location| format!(" at {location}"));
    // A closed standard error loses the report.
    let _ = writeln!(stderr(), "error[panicked]: the program panicked{location}");
}
