//! `cargo xtask lint`: every static check. All steps run, so that one call reports every problem.

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
    eprintln!("xtask: public surface and documentation warnings");
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

/// The cargo commands, fastest first.
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

/// The external linters: dependencies of the workspace, those of the released binary, and workflows.
fn linters(workspace: &Workspace) -> Result<Vec<(&'static str, Command)>> {
    let cargo_deny = cargo_deny()?;
    let deny = |arguments: &str| {
        let mut command = workspace.command(&cargo_deny);
        command.arg("--locked").args(arguments.split(' '));
        ("deny", command)
    };
    let mut workflows = workspace.command(&actionlint()?);
    // actionlint would run these if the machine has them.
    workflows.args(["-shellcheck=", "-pyflakes="]);
    let files = files(workspace.root())?.into_iter();
    workflows.args(files.filter(|file| file.starts_with(".github/workflows/")));
    Ok(vec![
        // If a manifest names no licence, the one of its file counts.
        deny("check --allow no-license-field bans licenses sources"),
        deny("--manifest-path broker-app/cli/Cargo.toml --exclude-dev check bans"),
        ("workflows", workflows),
    ])
}

/// Checks a crate alone, with few or no features, as an embedder builds it: the features of the workspace would hide a
/// missing one. Clippy can turn the warnings of this crate alone into errors.
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

/// A library leaves the Kubernetes version to its embedder, so a check alone must choose one: the version behind the
/// `latest` feature of `k8s-openapi`, which the binary uses.
const KUBERNETES: (&str, &str) = ("K8S_OPENAPI_ENABLED_VERSION", "1.37");

/// Packages the published crates; with `nightly` also builds each package. Uncommitted changes are allowed.
fn package(workspace: &Workspace, nightly: bool) -> Command {
    let mut command = workspace.cargo(&["package", "--workspace", "--allow-dirty"]);
    for package in workspace.packages().filter(|package| !is_published(package)) {
        command.args(["--exclude", &package.name]);
    }
    if nightly {
        // A separate directory, because other builds have other profiles; without it, each package would get its own.
        command.env("CARGO_TARGET_DIR", workspace.target().join("package"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env(KUBERNETES.0, KUBERNETES.1);
    } else {
        command.arg("--no-verify");
    }
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cargo_metadata::DependencyKind;

    use super::*;

    #[test]
    fn published_library_is_checked_alone_and_packaged() {
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

    /// The published crates that reach `k8s-openapi` and leave its version to their embedder.
    fn without_kubernetes_version(workspace: &Workspace) -> BTreeSet<String> {
        let published: Vec<_> = workspace.packages().filter(|it| is_published(it)).collect();
        let mut reaching = BTreeSet::from(["k8s-openapi".to_owned(), "kube".to_owned()]);
        loop {
            let more: Vec<_> = published
                .iter()
                .filter(|package| {
                    let mut needs =
                        package.dependencies.iter().filter(|it| it.kind == DependencyKind::Normal);
                    needs.any(|it| reaching.contains(&it.name))
                })
                .map(|package| package.name.to_string())
                .filter(|name| !reaching.contains(name))
                .collect();
            if more.is_empty() {
                break;
            }
            reaching.extend(more);
        }
        let chooses = |package: &&Package| {
            let mut needs = package.dependencies.iter();
            needs.any(|it| {
                it.name == "k8s-openapi"
                    && it.kind == DependencyKind::Normal
                    && !it.features.is_empty()
            })
        };
        let published = published.into_iter().filter(|it| !chooses(it));
        published.map(|it| it.name.to_string()).filter(|name| reaching.contains(name)).collect()
    }

    #[test]
    fn crate_without_a_kubernetes_version_names_one_for_docs_rs() {
        let workspace = Workspace::load().unwrap();
        let found = without_kubernetes_version(&workspace);
        assert_eq!(found.iter().collect::<Vec<_>>(), ["broker-embed", "broker-kube"]);
        let version = format!("env.{}='{}'", KUBERNETES.0, KUBERNETES.1);
        for package in workspace.packages().filter(|it| found.contains(it.name.as_str())) {
            let arguments = &package.metadata["docs"]["rs"]["cargo-args"];
            assert_eq!(*arguments, serde_json::json!(["--config", version]), "{}", package.name);
        }
    }

    #[test]
    fn release_page_names_published_crates_and_kubernetes_version() {
        let workspace = Workspace::load().unwrap();
        let page = std::fs::read_to_string(workspace.root().join("docs/release.md")).unwrap();
        let (_, publish) = page.split_once("\n## Publish\n").unwrap();
        for package in workspace.packages().filter(|it| is_published(it)) {
            assert!(publish.contains(&format!("`{}`", package.name)), "{}", package.name);
        }
        assert!(
            publish.contains(&format!("export {}={}\n", KUBERNETES.0, KUBERNETES.1)),
            "{publish}"
        );
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
