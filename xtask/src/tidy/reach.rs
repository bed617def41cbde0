//! Rule `reach`: what a crate drags along, through everything that it depends on.
//!
//! Rule `edges` looks at what a manifest names; this one at what is built in the end. An embedder takes no driver, client,
//! server or parser along that it did not choose, and the binary holds nothing that is there for tests.

use super::Finding;
use super::tree::Tree;
use crate::error::TaskError;
use crate::workspace::{Workspace, spawn_error};

const RULE: &str = "reach";

/// What an embedder gets.
const LIBRARY: &str = "broker-app";
const NOT_FOR_EMBEDDERS: [&str; 4] = ["axum", "clap", "kube", "sqlx"];

/// What is released.
const BINARY: &str = "provisioning-broker";
const FOR_TESTS: [&str; 2] = ["testing", "mocks"];

/// Lines of `cargo tree`, one per package or feature.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Every package that the library is built with.
    pub(super) library: Vec<String>,
    /// Every feature that the binary is built with.
    pub(super) binary: Vec<String>,
}

impl Reach {
    pub(super) fn load(workspace: &Workspace) -> Result<Self, TaskError> {
        let lines = |name: &str, edges| {
            // A tree that is made for a test of a rule need not hold everything.
            let is_there = workspace.packages().any(|package| package.name == name);
            if is_there { lines(workspace, name, edges) } else { Ok(Vec::new()) }
        };
        Ok(Self { library: lines(LIBRARY, "normal")?, binary: lines(BINARY, "normal,features")? })
    }
}

/// Everything that is built in and should not be.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |member: &str, what: String, remedy: &str| {
        let manifest =
            tree.members.iter().find(|it| it.name == member).map(|it| it.manifest.clone());
        findings.push(Finding {
            path: manifest.unwrap_or_else(|| member.to_owned()),
            line: 1,
            rule: RULE,
            problem: format!("{member} is built with {what}"),
            remedy: format!("{remedy}; `cargo tree --package {member} --edges features` shows how"),
        });
    };
    let packages = tree.reach.library.iter().filter_map(|line| line.split_whitespace().next());
    for package in packages {
        let heavy = NOT_FOR_EMBEDDERS.iter().find(|heavy| is_of(package, heavy));
        if heavy.is_some() {
            found(LIBRARY, package.to_owned(), "leave it to adapters and the embedder");
        }
    }
    for line in &tree.reach.binary {
        let feature = FOR_TESTS.iter().find(|feature| {
            line.starts_with("broker-") && line.contains(&format!(" feature \"{feature}\""))
        });
        if feature.is_some() {
            found(BINARY, line.trim_end_matches(" (*)").to_owned(), "it belongs to tests");
        }
    }
    findings.dedup();
    findings
}

/// The crate, or a part of its family, such as `sqlx-core`.
fn is_of(package: &str, family: &str) -> bool {
    package.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn lines(workspace: &Workspace, package: &str, edges: &str) -> Result<Vec<String>, TaskError> {
    let mut command = workspace.cargo(&["tree", "--quiet", "--package", package]);
    command.args(["--edges", edges, "--prefix", "none"]);
    let output = command.output().map_err(spawn_error(&command))?;
    if !output.status.success() {
        let how = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(TaskError::Command { what: format!("`cargo tree` of {package}"), how });
    }
    let mut lines: Vec<_> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(library: &[&str], binary: &[&str]) -> Vec<String> {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let reach = Reach { library: owned(library), binary: owned(binary) };
        let tree = Tree { reach, ..Tree::default() };
        check(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn a_heavy_crate_is_found_however_it_comes_along() {
        assert_eq!(
            problems(&["serde v1.0.0", "sqlx-core v0.9.0 (*)", "kube v5.0.0", "claptrap v1"], &[]),
            ["broker-app is built with sqlx-core", "broker-app is built with kube"]
        );
    }

    #[test]
    fn what_tests_are_made_of_is_not_released() {
        let lines = [
            "broker-ports feature \"memory\"",
            "broker-ports feature \"testing\" (*)",
            "rustls feature \"testing\"",
        ];
        assert_eq!(
            problems(&[], &lines),
            ["provisioning-broker is built with broker-ports feature \"testing\""]
        );
    }
}
