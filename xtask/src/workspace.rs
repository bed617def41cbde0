//! The cargo workspace: its metadata, its files, and cargo commands.

use std::ffi::{OsStr, OsString};
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};
use broker_test_servers::failure::{cannot, cannot_run};
use cargo_metadata::{Artifact, Message, Metadata, MetadataCommand, Package};

/// The workspace of the current directory.
pub(crate) struct Workspace {
    metadata: Metadata,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        // Without dependencies, so this needs no network and no lock.
        let metadata = MetadataCommand::new().no_deps().exec();
        Ok(Self { metadata: metadata.context("cannot read the workspace's metadata")? })
    }

    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

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

    /// Another command at the root.
    pub(crate) fn command(&self, program: &Path) -> Command {
        command_in(self.root(), program.as_os_str())
    }
}

/// The cargo that runs this task: it keeps the toolchain chosen on the command line.
pub(crate) fn cargo_in(directory: &Path, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = command_in(directory, &cargo);
    command.args(arguments);
    command
}

fn command_in(directory: &Path, program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    // `cargo xtask` runs under cargo, which set variables for the package xtask. Build scripts that read them would run
    // again whenever a developer calls cargo directly.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_package_variable(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether cargo sets this variable for the package that it builds or runs.
fn is_package_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let one = ["CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
    one.contains(&&*name) || ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it))
}

/// Hidden directories that are part of the project; others belong to tools.
const OWN_HIDDEN_DIRECTORIES: [&str; 3] = [".cargo", ".ci", ".github"];

/// Every file below a root except build output and tool directories: relative, with slashes, sorted.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut unread = vec![String::new()];
    while let Some(directory) = unread.pop() {
        let path = root.join(&directory);
        for entry in path.read_dir().with_context(cannot("read", &path))? {
            let entry = entry.with_context(cannot("read", &path))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_own = !name.starts_with('.') || OWN_HIDDEN_DIRECTORIES.contains(&name.as_str());
            let within = format!("{directory}{name}");
            match entry.file_type().with_context(cannot("read", &path))? {
                kind if kind.is_dir() && is_own && within != "target" => {
                    unread.push(format!("{within}/"));
                }
                kind if kind.is_file() && name != ".git" => files.push(within),
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// Runs a command with inherited output.
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(cannot_run(command))
}

/// The artifacts of a cargo build, and its exit status.
pub(crate) fn artifacts(command: &mut Command) -> Result<(Vec<Artifact>, ExitStatus)> {
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut cargo = command.spawn().with_context(cannot_run(command))?;
    let mut artifacts = Vec::new();
    for message in
        cargo.stdout.take().map(BufReader::new).into_iter().flat_map(Message::parse_stream)
    {
        if let Message::CompilerArtifact(artifact) = message? {
            artifacts.push(artifact);
        }
    }
    Ok((artifacts, cargo.wait()?))
}
