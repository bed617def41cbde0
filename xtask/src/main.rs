//! `cargo xtask`: see `cargo xtask --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run(std::env::args_os())
}
