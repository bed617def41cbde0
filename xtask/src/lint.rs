//! `cargo xtask lint`: everything that can be wrong before a test runs. All steps run, so that one
//! call shows all there is to mend.

use std::process::Command;

use cargo_metadata::{Package, TargetKind};

use crate::error::TaskError;
use crate::tidy;
use crate::workspace::{Workspace, is_published, run as run_command};

pub(crate) fn run() -> Result<(), TaskError> {
    let workspace = Workspace::load()?;
    let mut failed = Vec::new();
    for (name, mut command) in steps(&workspace) {
        let arguments: Vec<_> = command.get_args().map(|part| part.to_string_lossy()).collect();
        eprintln!("xtask: {name}: cargo {}", arguments.join(" "));
        if !run_command(name, &mut command)?.success() && !failed.contains(&name) {
            failed.push(name);
        }
    }
    eprintln!("xtask: tidy");
    match tidy::run() {
        Ok(()) => {}
        Err(TaskError::Untidy { .. }) => failed.push("tidy"),
        Err(error) => return Err(error),
    }
    if failed.is_empty() { Ok(()) } else { Err(TaskError::Lint { steps: failed }) }
}

/// The commands in their order: the quickest to fail first.
fn steps(workspace: &Workspace) -> Vec<(&'static str, Command)> {
    let mut steps = vec![
        ("fmt", workspace.cargo(&["fmt", "--all", "--check"])),
        (
            "clippy",
            workspace.cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ]),
        ),
    ];
    for package in
        workspace.packages().filter(|package| is_published(package) && has_library(package))
    {
        steps.push(("alone", alone(workspace, package, None)));
        let features = package.features.keys().filter(|feature| *feature != "default");
        steps.extend(features.map(|feature| ("alone", alone(workspace, package, Some(feature)))));
    }
    let mut doc = workspace.cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    steps.push(("doc", doc));
    steps.push(("package", package(workspace)));
    steps
}

fn has_library(package: &Package) -> bool {
    package.targets.iter().any(|target| target.is_kind(TargetKind::Lib))
}

/// The crate by itself, as an embedder gets it who turns everything or all but one thing off. In
/// the workspace its neighbours' features would hide a missing one. Clippy, because it can turn the
/// warnings of this crate alone into errors.
fn alone(workspace: &Workspace, package: &Package, feature: Option<&String>) -> Command {
    let mut command =
        workspace.cargo(&["clippy", "--lib", "--no-default-features", "--package", &package.name]);
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    // A library leaves the Kubernetes version to its embedder; alone it has none, and any will do.
    command.env("K8S_OPENAPI_ENABLED_VERSION", "1.36");
    command.args(["--", "-D", "warnings"]);
    command
}

/// Packages what is published. Changes that are not committed yet are no reason to refuse.
fn package(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(&["package", "--workspace", "--no-verify"]);
    for package in workspace.packages().filter(|package| !is_published(package)) {
        command.args(["--exclude", &package.name]);
    }
    let mut status = Command::new("git");
    status.current_dir(workspace.root()).args(["status", "--porcelain"]);
    let is_clean =
        status.output().is_ok_and(|output| output.status.success() && output.stdout.is_empty());
    if !is_clean {
        command.arg("--allow-dirty");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> String {
        command.get_args().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_published_library_is_checked_alone_and_with_each_feature() {
        let workspace = Workspace::load().unwrap();
        let alone: Vec<String> = steps(&workspace)
            .iter()
            .filter(|(name, _)| *name == "alone")
            .map(|(_, command)| words(command))
            .collect();
        for crate_and_features in
            ["broker-domain --", "broker-domain --features serde --", "broker-app --"]
        {
            assert!(
                alone.iter().any(|line| line.contains(crate_and_features)),
                "{crate_and_features}: {alone:#?}"
            );
        }
        assert!(!alone.iter().any(|line| line.contains("xtask")), "{alone:#?}");
    }

    #[test]
    fn only_what_is_published_is_packaged() {
        let workspace = Workspace::load().unwrap();
        let package = words(&package(&workspace));
        for excluded in ["xtask", "broker-tests"] {
            assert!(package.contains(&format!("--exclude {excluded}")), "{package}");
        }
        assert!(!package.contains("broker-app"), "{package}");
    }
}
