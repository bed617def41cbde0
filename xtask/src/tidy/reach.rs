//! Rule `reach`: what a crate drags along, through everything that it depends on.
//!
//! Rule `edges` looks at what a manifest names; this one at what is built in the end. An embedder takes no driver, client,
//! server or parser along that it did not choose, and the binary holds nothing that is there for tests.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;

use super::Finding;
use super::tree::Tree;
use crate::workspace::Workspace;

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
    pub(super) fn load(workspace: &Workspace) -> Result<Self> {
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
    let found = |member: &str, what: &str, remedy: &str| {
        let how = format!("`cargo tree --package {member} --edges features` shows how");
        let problem = format!("{member} is built with {what}");
        Finding::new(RULE, member, 1, problem, format!("{remedy}; {how}"))
    };
    let packages = tree.reach.library.iter().filter_map(|line| line.split_whitespace().next());
    let heavy = packages.filter(|package| NOT_FOR_EMBEDDERS.iter().any(|it| is_of(package, it)));
    let heavy = heavy.map(|it| found(LIBRARY, it, "leave it to adapters and the embedder"));
    let is_for_tests = |line: &&String| {
        let has = |feature: &&str| line.contains(&format!(" feature \"{feature}\""));
        line.starts_with("broker-") && FOR_TESTS.iter().any(has)
    };
    let features = tree.reach.binary.iter().filter(is_for_tests);
    let features =
        features.map(|line| found(BINARY, line.trim_end_matches(" (*)"), "it belongs to tests"));
    heavy.chain(features).collect()
}

/// The crate, or a part of its family, such as `sqlx-core`.
fn is_of(package: &str, family: &str) -> bool {
    package.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn lines(workspace: &Workspace, package: &str, edges: &str) -> Result<Vec<String>> {
    let mut command = workspace.cargo(&["tree", "--quiet", "--package", package]);
    command.args(["--edges", edges, "--prefix", "none"]);
    let output = command.output().with_context(cannot_run(&command))?;
    let how = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo tree` of {package} failed ({})", how.trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: BTreeSet<_> = text.lines().map(str::to_owned).collect();
    Ok(lines.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_crates_and_what_serves_tests_are_found_however_they_come_along() {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let library =
            owned(&["serde v1.0.0", "sqlx-core v0.9.0 (*)", "kube v5.0.0", "claptrap v1"]);
        let binary = owned(&[
            "broker-ports feature \"memory\"",
            "broker-ports feature \"testing\" (*)",
            "rustls feature \"testing\"",
        ]);
        let tree = Tree { reach: Reach { library, binary }, ..Tree::default() };
        let problems: Vec<_> = check(&tree).into_iter().map(|finding| finding.problem).collect();
        assert_eq!(
            problems,
            [
                "broker-app is built with sqlx-core",
                "broker-app is built with kube",
                "provisioning-broker is built with broker-ports feature \"testing\""
            ]
        );
    }
}
