//! The workspace as cargo knows it, and calls of cargo itself.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitStatus};

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::error::TaskError;
use broker_test_servers::progress::{step, to_stderr};

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

    /// Where cargo builds.
    pub(crate) fn target(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
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
    // `cargo xtask` was itself run by cargo, which told us about our own package. A build script that looks at
    // these would run again, with all that depends on it, whenever somebody calls cargo without us.
    for (name, _) in std::env::vars_os().filter(|(name, _)| tells_of_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether cargo sets this variable for the package that it builds or runs, and for nothing else.
fn tells_of_a_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let one = ["CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
    one.contains(&&*name) || ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_knows_nothing_of_our_own_package() {
        let command = cargo_in(Path::new("/"), &[]);
        let removed: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        // Cargo runs this test, too.
        assert!(removed.contains(&OsStr::new("CARGO_PKG_NAME")), "{removed:?}");
        assert!(removed.contains(&OsStr::new("CARGO_MANIFEST_DIR")), "{removed:?}");
        for kept in ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_TERM_COLOR", "RUSTFLAGS"] {
            assert!(!tells_of_a_package(OsStr::new(kept)), "{kept}");
        }
    }
}
