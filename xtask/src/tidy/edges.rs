//! Rules `edges` and `reach`: who may depend on whom, and what a crate drags along through everything that it depends on.
//!
//! ```text
//! domain ← render ← ports ← { pg, kube }        app → { domain, render, ports }
//! ```
//!
//! A cheap core is the point: the decision logic compiles without a runtime, a driver or a client,
//! and an embedder brings those of its own choice.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;
use cargo_metadata::DependencyKind;

use super::Finding;
use crate::workspace::Workspace;

/// Every edge that is allowed.
const ALLOWED: &str = include_str!("dependencies.txt");
const PATH: &str = "xtask/src/tidy/dependencies.txt";

/// These may depend on whatever it takes: no library depends on them.
const FREE: [&str; 4] = ["broker-test-servers", "broker-tests", "provisioning-broker", "xtask"];

/// Every dependency that is not allowed, and every one that is allowed and gone.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut edges = BTreeSet::new();
    for package in workspace.packages().filter(|package| !FREE.contains(&package.name.as_str())) {
        for dependency in &package.dependencies {
            let how = match (dependency.kind, dependency.optional) {
                (DependencyKind::Development, _) => ", for tests",
                (_, true) => ", optional",
                (_, false) => "",
            };
            edges.insert(format!("{}{how}: {}", package.name, dependency.name));
        }
    }
    compare(&edges)
}

fn compare(edges: &BTreeSet<String>) -> Vec<Finding> {
    let allowed: BTreeSet<_> = ALLOWED
        .lines()
        .filter_map(|line| line.split_once(": ").filter(|_| !line.starts_with('#')))
        .flat_map(|(who, whom)| whom.split(' ').map(move |whom| format!("{who}: {whom}")))
        .collect();
    let finding = |edge: &String, problem, remedy| {
        Finding::new("edges", PATH, 1, format!("{edge}: {problem}"), remedy)
    };
    let remedy = "remove it from the manifest, or list it if ARCHITECTURE.md allows it";
    let new = edges.difference(&allowed).map(|edge| finding(edge, "is not allowed", remedy));
    let gone = allowed.difference(edges);
    new.chain(gone.map(|edge| finding(edge, "is gone", "take it off the list"))).collect()
}

/// What an embedder does not get, with the family of each; and the features of ours that the binary is not built with.
const NOT_FOR_EMBEDDERS: [&str; 4] = ["axum", "clap", "kube", "sqlx"];
const FOR_TESTS: [&str; 2] = ["testing", "mocks"];

/// Everything that is built into the library or the binary in the end and should not be.
pub(super) fn reach(workspace: &Workspace) -> Result<Vec<Finding>> {
    let library = tree(workspace, "broker-app", "normal")?;
    let binary = tree(workspace, "provisioning-broker", "normal,features")?;
    let finding = |line| {
        let remedy = "`cargo tree --edges features` shows how it comes along; leave it out";
        Finding::new("reach", "Cargo.lock", 1, format!("{line} is built in"), remedy)
    };
    Ok(unwanted(&library, &binary).into_iter().map(finding).collect())
}

fn unwanted(library: &str, binary: &str) -> BTreeSet<String> {
    let is_heavy = |line: &&str| {
        let rests = NOT_FOR_EMBEDDERS.iter().filter_map(|family| line.strip_prefix(family));
        rests.into_iter().any(|rest| rest.starts_with([' ', '-']))
    };
    let is_for_tests = |line: &&str| {
        let has = |feature: &&str| line.contains(&format!(" feature \"{feature}\""));
        line.starts_with("broker-") && FOR_TESTS.iter().any(has)
    };
    let heavy = library.lines().filter(is_heavy);
    let lines = heavy.chain(binary.lines().filter(is_for_tests));
    lines.map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// Lines of `cargo tree`, one per package or feature.
fn tree(workspace: &Workspace, package: &str, edges: &str) -> Result<String> {
    let mut command = workspace.cargo(&["tree", "--quiet", "--package", package]);
    command.args(["--edges", edges, "--prefix", "none"]);
    let output = command.output().with_context(cannot_run(&command))?;
    let how = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo tree` of {package} failed ({})", how.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_that_is_not_allowed_or_is_gone_is_found() {
        let found = compare(&BTreeSet::from(["broker-app: sqlx".to_owned()]));
        let problems: Vec<_> = found.iter().map(|finding| finding.problem.as_str()).collect();
        assert!(problems.contains(&"broker-app: sqlx: is not allowed"), "{problems:?}");
        assert!(problems.contains(&"broker-domain, optional: serde: is gone"), "{problems:?}");
    }

    #[test]
    fn heavy_crates_and_what_serves_tests_are_found_however_they_come_along() {
        let library = "serde v1.0.0\nsqlx-core v0.9.0 (*)\nkube v5.0.0\nclaptrap v1\n";
        let binary = "broker-ports feature \"memory\"\nbroker-ports feature \"testing\"\n\
                      rustls feature \"testing\"\n";
        let expected = ["broker-ports feature \"testing\"", "kube v5.0.0", "sqlx-core v0.9.0"];
        assert!(unwanted(library, binary).iter().eq(expected));
    }
}
