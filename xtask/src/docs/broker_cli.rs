//! `docs/cli.md`: the reference of the binary, as the binary itself prints it.
//!
//! It is asked and not linked: a task that finds or starts servers should not have to build the binary's
//! drivers and clients first.

use std::process::Command;

use super::Generated;
use crate::error::TaskError;
use crate::test;
use crate::workspace::{Workspace, spawn_error};

/// The whole page; builds the binary if need be.
pub(super) fn page(workspace: &Workspace) -> Result<Generated, TaskError> {
    let mut command = Command::new(test::program(workspace, "provisioning-broker")?);
    command.args(["docs", "cli"]);
    let output = command.output().map_err(spawn_error(&command))?;
    let failed =
        |how| TaskError::Command { what: "`provisioning-broker docs cli`".to_owned(), how };
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {}", output.status, errors.trim())));
    }
    let content = String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(Generated { path: "docs/cli.md", content })
}
