//! What the binary itself prints: the reference of its commands, the roles for the sample catalog, and a run of its
//! demo, as a picture.
//!
//! It is asked and not linked: a task that finds or starts servers should not have to build the binary's
//! drivers and clients first.

mod picture;

use std::path::Path;
use std::process::Command;

use super::Generated;
use crate::error::TaskError;
use crate::test;
use crate::workspace::{Workspace, spawn_error};

/// All of it; builds the binary if need be.
pub(super) fn pages(workspace: &Workspace) -> Result<Vec<Generated>, TaskError> {
    let binary = test::program(workspace, "provisioning-broker")?;
    let ask = |words: &[&str]| ask(workspace, &binary, words);
    let demo = ask(&["demo", "--json", "--speed", "max"])?;
    Ok(vec![
        Generated {
            path: "deploy/rbac.yaml",
            content: ask(&["rbac", "--catalog", "examples/catalog"])?,
        },
        Generated { path: "docs/cli.md", content: ask(&["docs", "cli"])? },
        Generated { path: "docs/demo.svg", content: picture::of(&demo) },
    ])
}

fn ask(workspace: &Workspace, binary: &Path, words: &[&str]) -> Result<String, TaskError> {
    let mut command = Command::new(binary);
    let command = command.args(words).current_dir(workspace.root());
    let output = command.output().map_err(spawn_error(command))?;
    let what = format!("`provisioning-broker {}`", words.join(" "));
    let failed = |how| TaskError::Command { what, how };
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {}", output.status, errors.trim())));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}
