//! `cargo xtask tidy`: what the compiler cannot check.
//!
//! Most rules are pure functions from a [`Tree`] to findings, so that each can be broken in a test on a
//! few lines of text.

mod checks;
mod edges;
mod pages;
mod proof;
mod mutations;
mod semver;
mod sources;
mod tree;

use std::fmt;

use anyhow::Result;

use crate::docs;
use crate::workspace::Workspace;

pub(crate) use mutations::variants_fit;
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
        remedy: &str,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            problem: problem.into(),
            remedy: remedy.to_owned(),
        }
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
    let tree = Tree::load(workspace.root())?;
    let mut findings = edges::check(&workspace);
    findings.extend(sources::check(&tree));
    findings.extend(semver::types_can_grow(&tree));
    findings.extend(pages::runbook_has_every_verdict(&tree));
    findings.extend(proof::promises_have_their_checks(&tree));
    findings.extend(proof::has_run_in_full(&tree));
    findings.extend(mutations::still_fits(&tree));
    // It takes a build, and what the other rules find may be why there is none.
    let generated = docs::generated(&workspace);
    findings.extend(pages::are_current(&tree, generated.as_deref().unwrap_or_default()));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    generated.map(|_| findings.len())
}
