//! Why servers could not be brought up or ended.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::servers::ServersError;
use crate::tools::SetupError;

/// Why servers could not be brought up or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpError {
    /// A program is missing and cannot be built.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A server did not start or refused its furniture.
    #[error(transparent)]
    Servers(#[from] ServersError),
    /// A program cannot be run.
    #[error("cannot run {program}")]
    Spawn {
        /// Which.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The keeper cannot be ended.
    #[error("cannot signal process {process}")]
    Signal {
        /// Its number.
        process: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The sample catalog cannot be rendered.
    #[error("the sample that servers are furnished with is broken")]
    Sample(#[source] broker_app::domain::Error),
    /// A command failed.
    #[error("{what} failed ({how})")]
    Command {
        /// Which.
        what: String,
        /// What it said.
        how: String,
    },
}

/// Turns a failed start into an error that names the program.
pub(super) fn spawn_error(command: &Command) -> impl FnOnce(io::Error) -> UpError {
    let program = command.get_program().to_string_lossy().into_owned();
    move |source| UpError::Spawn { program, source }
}
