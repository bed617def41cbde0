//! `cargo xtask tidy`: what the compiler cannot check.
//!
//! A rule is a pure function from a [`Tree`] to findings, so that each can be broken in a test on a
//! few lines of text.

mod checks;
mod commands;
mod edges;
mod generated;
mod guarantees;
mod manifests;
mod proof;
mod reach;
mod repeatable;
mod runbook;
mod sabotage;
mod semver;
mod sources;
mod tree;

use std::fmt;

use crate::docs::{self, Generated};
use crate::error::TaskError;
use crate::workspace::Workspace;

pub(crate) use sabotage::variants_fit;
use tree::Tree;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    rule: &'static str,
    problem: String,
    remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, problem, remedy } = self;
        write!(f, "{path}:{line}: [{rule}] {problem} — {remedy}")
    }
}

/// Prints every finding; any is a failure.
pub(crate) fn run() -> Result<(), TaskError> {
    let workspace = Workspace::load()?;
    let tree = Tree::load(&workspace)?;
    let (generated, failed) = match docs::generated(&workspace) {
        Ok(generated) => (generated, None),
        // It takes a build, and what the other rules find may be why there is none.
        Err(error) => (Vec::new(), Some(error)),
    };
    let findings = check(&tree, &generated);
    for finding in &findings {
        println!("{finding}");
    }
    if let Some(error) = failed {
        return Err(error);
    }
    match findings.len() {
        0 => Ok(()),
        findings => Err(TaskError::Untidy { findings }),
    }
}

/// Every rule, over one tree and what should have been generated into it.
fn check(tree: &Tree, generated: &[Generated]) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(edges::check(tree));
    findings.extend(manifests::lints_are_shared(tree));
    findings.extend(reach::check(tree));
    findings.extend(repeatable::check(tree));
    findings.extend(sources::begins_with_docs(tree));
    findings.extend(sources::no_mod_rs(tree));
    findings.extend(sources::nothing_unfinished(tree));
    findings.extend(sources::no_private_paths(tree));
    findings.extend(semver::types_can_grow(tree));
    findings.extend(generated::are_current(tree, generated));
    findings.extend(commands::ci_runs_the_test_command(tree));
    findings.extend(runbook::has_every_code(tree, &runbook::codes()));
    findings.extend(guarantees::have_their_checks(tree));
    findings.extend(proof::has_run_in_full(tree));
    findings.extend(sabotage::still_fits(tree));
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_rule_problem_and_remedy() {
        let finding = Finding {
            path: "a/Cargo.toml".to_owned(),
            line: 7,
            rule: "edges",
            problem: "a must not depend on b".to_owned(),
            remedy: "remove it".to_owned(),
        };
        assert_eq!(
            finding.to_string(),
            "a/Cargo.toml:7: [edges] a must not depend on b — remove it"
        );
    }

    #[test]
    fn check_reaches_every_rule() {
        let mut tree = Tree::of_files(&[
            ("README.md", "no command"),
            ("docs/proof.md", "no table"),
            ("tests/sabotage/act/a.patch", "no patch"),
            ("a/src/mod.rs", concat!("fn f() { to", "do!() } // see ../sha", "red")),
            ("a/Cargo.toml", "[package]"),
            ("broker-app/src/a.rs", "//! Why.\nuse std::collections::HashMap;"),
            ("broker-ports/src/a.rs", "//! Why.\npub enum Fresh {}"),
        ]);
        tree.members.push(tree::Member {
            name: "a".to_owned(),
            manifest: "a/Cargo.toml".to_owned(),
            dependencies: vec![],
        });
        tree.reach.library.push("axum v0.8.0".to_owned());
        let generated = [Generated { path: "docs/a.md", content: String::new() }];
        let mut rules: Vec<_> =
            check(&tree, &generated).into_iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(
            rules,
            [
                "edges",
                "generated",
                "guarantees",
                "header",
                "lints",
                "mod-rs",
                "private-path",
                "proof",
                "reach",
                "repeatable",
                "runbook",
                "sabotage",
                "semver",
                "test-command",
                "unfinished"
            ]
        );
    }
}
