//! `cargo xtask lint`: everything that can be wrong before a test runs. All steps run, so that one
//! call shows all there is to mend.

use std::process::Command;

use anyhow::{Result, ensure};
use cargo_metadata::{Package, TargetKind};

use crate::tidy;
use crate::workspace::{Workspace, is_published, run as run_command};

pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut failed = Vec::new();
    for (name, mut command) in steps(&workspace) {
        let arguments: Vec<_> = command.get_args().map(|part| part.to_string_lossy()).collect();
        eprintln!("xtask: {name}: cargo {}", arguments.join(" "));
        if !run_command(&mut command)?.success() && !failed.contains(&name) {
            failed.push(name);
        }
    }
    eprintln!("xtask: tidy");
    if tidy::run()? > 0 {
        failed.push("tidy");
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The commands in their order: the quickest to fail first.
fn steps(workspace: &Workspace) -> Vec<(&'static str, Command)> {
    let all = ["clippy", "--workspace", "--all-targets", "--all-features"];
    let mut clippy = workspace.cargo(&all);
    clippy.args(["--", "-D", "warnings"]);
    let fmt = workspace.cargo(&["fmt", "--all", "--check"]);
    let mut steps = vec![("fmt", fmt), ("clippy", clippy)];
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
    let mut command = workspace.cargo(&["package", "--workspace", "--no-verify", "--allow-dirty"]);
    for package in workspace.packages().filter(|package| !is_published(package)) {
        command.args(["--exclude", &package.name]);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_library_is_checked_alone_with_each_feature_and_packaged() {
        let steps = steps(&Workspace::load().unwrap());
        let lines: Vec<_> = steps.iter().map(|step| format!("{step:?}").replace('"', "")).collect();
        for (part, expected) in [
            ("--package broker-domain --", true),
            ("--package broker-domain --features serde --", true),
            ("--exclude xtask", true),
            ("--package xtask", false),
            ("--exclude broker-app", false),
        ] {
            assert_eq!(
                lines.iter().any(|line| line.contains(part)),
                expected,
                "{part}: {lines:#?}"
            );
        }
    }
}
