//! `cargo xtask lint`: everything that can be wrong before a test runs. All steps run, so that one
//! call shows all there is to mend.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use broker_app::one_line;
use broker_test_servers::tools::{actionlint, cargo_deny};
use cargo_metadata::Package;

use crate::workspace::{Workspace, files, is_published, run as run_command};
use crate::{surface, tidy};

pub(crate) fn run(nightly: bool) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut failed = Vec::new();
    let mut steps = steps(&workspace, nightly);
    match linters(&workspace) {
        Ok(more) => steps.extend(more),
        Err(error) => {
            eprintln!("xtask: {}", one_line(&*error));
            failed.push("linters");
        }
    }
    for (name, mut command) in steps {
        let program = Path::new(command.get_program()).file_name().unwrap_or_default();
        let arguments: Vec<_> = command.get_args().map(|part| part.to_string_lossy()).collect();
        eprintln!("xtask: {name}: {} {}", program.display(), arguments.join(" "));
        if !run_command(&mut command)?.success() && !failed.contains(&name) {
            failed.push(name);
        }
    }
    eprintln!("xtask: public surface, and warnings of the documentation");
    let differing = surface::check(&workspace).unwrap_or_else(|error| {
        eprintln!("error: {}", one_line(&*error));
        1
    });
    if differing > 0 {
        failed.push("surface");
    }
    eprintln!("xtask: tidy");
    if tidy::run()? > 0 {
        failed.push("tidy");
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The commands of cargo in their order: the quickest to fail first.
fn steps(workspace: &Workspace, nightly: bool) -> Vec<(&'static str, Command)> {
    let all = ["clippy", "--workspace", "--all-targets", "--all-features"];
    let mut clippy = workspace.cargo(&all);
    clippy.args(["--", "-D", "warnings"]);
    let fmt = workspace.cargo(&["fmt", "--all", "--check"]);
    let mut steps = vec![("fmt", fmt), ("clippy", clippy)];
    for package in surface::libraries(workspace) {
        steps.push(("alone", alone(workspace, package, None)));
        let features = package.features.keys().filter(|feature| *feature != "default");
        steps.extend(features.map(|feature| ("alone", alone(workspace, package, Some(feature)))));
    }
    steps.push(("package", package(workspace, nightly)));
    steps
}

/// What cargo does not bring: dependencies of the workspace, those of the binary's release, and workflows.
fn linters(workspace: &Workspace) -> Result<Vec<(&'static str, Command)>> {
    let cargo_deny = cargo_deny()?;
    let deny = |arguments: &str| {
        let mut command = workspace.command(&cargo_deny);
        command.arg("--locked").args(arguments.split(' '));
        ("deny", command)
    };
    let mut workflows = workspace.command(&actionlint()?);
    // It would call these where a machine has them.
    workflows.args(["-shellcheck=", "-pyflakes="]);
    let files = files(workspace.root())?.into_iter();
    workflows.args(files.filter(|file| file.starts_with(".github/workflows/")));
    Ok(vec![
        // Where a manifest names no licence, that of its file counts.
        deny("check --allow no-license-field bans licenses sources"),
        deny("--manifest-path broker-app/cli/Cargo.toml --exclude-dev check bans"),
        ("workflows", workflows),
    ])
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
    command.env(KUBERNETES.0, KUBERNETES.1);
    command.args(["--", "-D", "warnings"]);
    command
}

/// A library leaves the Kubernetes version to its embedder, so alone it needs one. It is the one that `latest` of
/// `k8s-openapi` names, because the binary has that feature.
const KUBERNETES: (&str, &str) = ("K8S_OPENAPI_ENABLED_VERSION", "1.37");

/// Packages what is published, by night with a build of each package. Changes that are not committed yet are no reason to
/// refuse.
fn package(workspace: &Workspace, nightly: bool) -> Command {
    let mut command = workspace.cargo(&["package", "--workspace", "--allow-dirty"]);
    for package in workspace.packages().filter(|package| !is_published(package)) {
        command.args(["--exclude", &package.name]);
    }
    if nightly {
        // Apart from other builds, which have other profiles. Without it, each package would have a target of its own.
        command.env("CARGO_TARGET_DIR", workspace.target().join("package"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env(KUBERNETES.0, KUBERNETES.1);
    } else {
        command.arg("--no-verify");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_library_is_checked_alone_with_each_feature_and_packaged() {
        let steps = steps(&Workspace::load().unwrap(), false);
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

    #[test]
    fn published_crate_has_its_metadata_readme_and_licences() {
        for package in Workspace::load().unwrap().packages().filter(|it| is_published(it)) {
            let root = package.manifest_path.parent().unwrap();
            let files =
                ["README.md", "LICENSE-MIT", "LICENSE-APACHE"].map(|it| root.join(it).is_file());
            let texts = [&package.description, &package.license].map(Option::is_some);
            let lists = [&package.keywords, &package.categories].map(|it| !it.is_empty());
            let all_features = package.metadata["docs"]["rs"]["all-features"] == true;
            let found = (files, texts, lists, package.readme.is_some(), all_features);
            assert_eq!(found, ([true; 3], [true; 2], [true; 2], true, true), "{}", package.name);
        }
    }
}
