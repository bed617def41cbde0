//! One benchmark, compiled.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::Stdio;

use cargo_metadata::Message;

use super::Target;
use crate::error::TaskError;
use crate::workspace::{Workspace, spawn_error};

/// Compiles the benchmark; answers the program.
pub(super) fn build(workspace: &Workspace, target: &Target) -> Result<PathBuf, TaskError> {
    let Target { name, package, features, profile } = target;
    let mut arguments =
        vec!["bench", "--package", package, "--bench", name, "--profile", profile, "--no-run"];
    for feature in *features {
        arguments.extend(["--features", feature]);
    }
    arguments.push("--message-format=json-render-diagnostics");
    let mut command = workspace.cargo(&arguments);
    let mut cargo = command.stdout(Stdio::piped()).spawn().map_err(spawn_error(&command))?;
    let output = cargo.stdout.take().map(BufReader::new);
    let mut program = None;
    for message in output.into_iter().flat_map(Message::parse_stream) {
        if let Message::CompilerArtifact(artifact) = message.map_err(spawn_error(&command))?
            && artifact.target.name == *name
        {
            program = artifact.executable.or(program);
        }
    }
    let status = cargo.wait().map_err(spawn_error(&command))?;
    program.filter(|_| status.success()).map(Into::into).ok_or_else(|| TaskError::Command {
        what: format!("building the benchmark {name}"),
        how: status.to_string(),
    })
}
