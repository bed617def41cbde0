//! What the binary itself prints: the reference of its commands, the roles for the sample catalog, and a run of its
//! demo, as a picture.
//!
//! It is asked and not linked: a task that finds or starts servers should not have to build the binary's
//! drivers and clients first.

mod picture;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;

use super::Generated;
use crate::test;
use crate::workspace::Workspace;

/// All of it; builds the binary if need be.
pub(super) fn pages(workspace: &Workspace) -> Result<Vec<Generated>> {
    let binary = test::program(workspace, "provisioning-broker", "demo")?;
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

fn ask(workspace: &Workspace, binary: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(binary);
    let command = command.args(words).current_dir(workspace.root());
    let output = command.output().with_context(cannot_run(command))?;
    let (words, errors) = (words.join(" "), String::from_utf8_lossy(&output.stderr));
    let (status, why) = (output.status, errors.trim());
    ensure!(status.success(), "`provisioning-broker {words}` failed ({status}: {why})");
    Ok(String::from_utf8(output.stdout)?)
}
