//! `cargo xtask tidy`: what the compiler cannot check.
//!
//! A rule is a pure function from a [`Tree`] to findings, so that each can be broken in a test on a
//! few lines of text.

mod checks;
mod edges;
mod pages;
mod proof;
mod reach;
mod sabotage;
mod semver;
mod sources;
mod tree;

use std::fmt;

use anyhow::Result;

use crate::docs::{self, Generated};
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

impl Finding {
    fn new(
        rule: &'static str,
        path: &str,
        line: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (path, problem, remedy) = (path.to_owned(), problem.into(), remedy.into());
        Self { path, line, rule, problem, remedy }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, problem, remedy } = self;
        write!(f, "{path}:{line}: [{rule}] {problem} — {remedy}")
    }
}

/// Prints every finding; answers how many there are.
pub(crate) fn run() -> Result<usize> {
    let workspace = Workspace::load()?;
    let tree = Tree::load(&workspace)?;
    // It takes a build, and what the other rules find may be why there is none.
    let generated = docs::generated(&workspace);
    let findings = check(&tree, generated.as_ref().map_or(&[], Vec::as_slice));
    for finding in &findings {
        println!("{finding}");
    }
    generated.map(|_| findings.len())
}

/// Every rule, over one tree and what should have been generated into it.
fn check(tree: &Tree, generated: &[Generated]) -> Vec<Finding> {
    let mut findings = edges::check(tree);
    findings.extend(reach::check(tree));
    findings.extend(sources::check(tree));
    findings.extend(semver::types_can_grow(tree));
    findings.extend(pages::are_current(tree, generated));
    findings.extend(pages::ci_runs_the_test_command(tree));
    findings.extend(pages::runbook_has_every_verdict(tree));
    findings.extend(proof::promises_have_their_checks(tree));
    findings.extend(proof::has_run_in_full(tree));
    findings.extend(sabotage::still_fits(tree));
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines on which files break a rule.
    pub(super) fn lines(rule: &str, files: &[(&str, &str)]) -> Vec<usize> {
        let findings = check(&Tree::of_files(files), &[]);
        findings.iter().filter(|finding| finding.rule == rule).map(|finding| finding.line).collect()
    }

    /// A path, its text, and the lines on which it breaks the rule.
    pub(super) fn check_table(rule: &str, table: &[(&str, &str, &[usize])]) {
        for (path, text, expected) in table {
            assert_eq!(lines(rule, &[(path, text)]), *expected, "{rule}: {path}: {text}");
        }
    }

    /// What is wrong with files by one rule.
    pub(super) fn problems(rule: &str, files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Tree::of_files(files), &[]).into_iter();
        findings.filter(|finding| finding.rule == rule).map(|finding| finding.problem).collect()
    }

    #[test]
    fn finding_names_place_rule_problem_and_remedy() {
        let finding = Finding::new("edges", "a/Cargo.toml", 7, "a must not use b", "remove it");
        assert_eq!(finding.to_string(), "a/Cargo.toml:7: [edges] a must not use b — remove it");
    }
}
