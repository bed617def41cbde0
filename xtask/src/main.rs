//! `cargo xtask`: the binary over [`xtask::run`].

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run(std::env::args_os())
}
