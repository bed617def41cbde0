//! One cargo call that compiles every test binary, and what came out of it.
//!
//! Always the whole workspace with all features, whichever tier is wanted: another selection would
//! resolve other features and compile the same crates again.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::Stdio;

use cargo_metadata::{Artifact, Message, TargetKind};

use crate::error::TaskError;
use crate::workspace::{Workspace, spawn_error};
use broker_test_servers::progress::{step, to_stderr};

use super::plan::Plan;
use super::suite::{Suite, Tests};

/// What is built, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// Everything, as quickly as possible.
    Everything,
    /// The tests that try millions of histories in memory, optimised.
    Proof,
}

impl Build {
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Everything => &[],
            Self::Proof => &["--profile", "proof", "--test", "proof"],
        }
    }
}

/// The suites of the plan's tiers, in the plan's order.
pub(super) fn suites(
    workspace: &Workspace,
    plan: &Plan,
    build: Build,
) -> Result<Vec<Suite>, TaskError> {
    let artifacts = step(&to_stderr, "building the tests", || compile(workspace, build))?;
    let mut suites: Vec<Suite> =
        artifacts.iter().filter_map(|artifact| suite(workspace, plan, artifact)).collect();
    suites.sort_by(|one, other| one.title.cmp(&other.title));
    if let Some(tier) = plan.documentation() {
        suites.push(Suite {
            tier: tier.clone(),
            title: "examples in the documentation".to_owned(),
            tests: Tests::Documentation { root: workspace.root().to_owned() },
        });
    }
    // Stable: within a tier the binaries stay sorted, and the slow examples come last.
    suites.sort_by_key(|suite| plan.position(&suite.tier));
    Ok(suites)
}

/// A program of the workspace, as the tests run it: built with the same features as they are, so that
/// no crate is compiled a second time for it.
pub(super) fn program(workspace: &Workspace, name: &str) -> Result<PathBuf, TaskError> {
    let artifacts =
        step(&to_stderr, &format!("building {name}"), || compile(workspace, Build::Everything))?;
    let is_it = |artifact: &Artifact| {
        artifact.target.name == name && artifact.target.is_kind(TargetKind::Bin)
    };
    let built = artifacts.into_iter().filter(is_it).find_map(|artifact| {
        // The same target is built once more as a test of its own.
        if artifact.profile.test { None } else { artifact.executable }
    });
    built.map(Into::into).ok_or_else(|| TaskError::Command {
        what: format!("building {name}"),
        how: "no program of that name came out of it".to_owned(),
    })
}

fn compile(workspace: &Workspace, build: Build) -> Result<Vec<Artifact>, TaskError> {
    let mut arguments = vec!["test", "--workspace", "--all-features", "--no-run"];
    arguments.push("--message-format=json-render-diagnostics");
    arguments.extend(build.arguments());
    let mut command = workspace.cargo(&arguments);
    let mut cargo = command.stdout(Stdio::piped()).spawn().map_err(spawn_error(&command))?;
    let output = cargo.stdout.take().map(BufReader::new);
    let mut artifacts = Vec::new();
    for message in output.into_iter().flat_map(Message::parse_stream) {
        if let Message::CompilerArtifact(artifact) = message.map_err(spawn_error(&command))? {
            artifacts.push(artifact);
        }
    }
    let status = cargo.wait().map_err(spawn_error(&command))?;
    if !status.success() {
        return Err(TaskError::Command {
            what: "building the tests".to_owned(),
            how: status.to_string(),
        });
    }
    Ok(artifacts)
}

fn suite(workspace: &Workspace, plan: &Plan, artifact: &Artifact) -> Option<Suite> {
    let executable = artifact.executable.as_ref().filter(|_| artifact.profile.test)?;
    let package = workspace.packages().find(|package| package.id == artifact.package_id)?;
    let tier = plan.tier(&package.name, &artifact.target)?;
    let kind = artifact.target.kind.first().map(ToString::to_string).unwrap_or_default();
    Some(Suite {
        tier: tier.clone(),
        title: format!("{} {kind} {}", package.name, artifact.target.name),
        tests: Tests::Binary {
            path: executable.clone().into_std_path_buf(),
            manifest: package.manifest_path.clone().into_std_path_buf(),
        },
    })
}
