//! The workspace as cargo knows it, and calls of cargo itself.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus};

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::error::TaskError;
use crate::progress::{step, to_stderr};

/// The workspace around the current directory.
pub(crate) struct Workspace {
    metadata: Metadata,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self, TaskError> {
        Self::load_from(&MetadataCommand::new())
    }

    /// Only the members: what they depend on is not resolved, so this needs no network and no lock.
    pub(crate) fn load_from(command: &MetadataCommand) -> Result<Self, TaskError> {
        let metadata = command
            .clone()
            .no_deps()
            .exec()
            .map_err(|error| TaskError::Metadata(Box::new(error)))?;
        Ok(Self { metadata })
    }

    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.metadata.workspace_packages().into_iter()
    }

    /// A cargo command at the root.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        cargo_in(self.root(), arguments)
    }
}

/// The cargo that runs this task, so that a toolchain chosen on the command line stays chosen.
pub(crate) fn cargo_in(directory: &Path, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(directory).args(arguments);
    command
}

/// Whether it is ever published.
pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// Runs a command whose output is the person's to read.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<ExitStatus, TaskError> {
    step(&to_stderr, what, || command.status()).map_err(spawn_error(command))
}

/// Turns a failed start into an error that names the program.
pub(crate) fn spawn_error(command: &Command) -> impl FnOnce(std::io::Error) -> TaskError {
    let program = command.get_program().to_string_lossy().into_owned();
    move |source| TaskError::Spawn { program, source }
}
