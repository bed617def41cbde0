//! `cargo xtask tidy`: checks what the compiler cannot.
//!
//! Most rules are pure functions from a [`Tree`] to findings, so a unit test can break each of them on a few lines of
//! text.

mod checks;
mod edges;
mod language;
mod links;
mod mutations;
mod pages;
mod proof;
mod sources;
mod tree;

use std::fmt;

use anyhow::Result;

use crate::docs;
use crate::workspace::Workspace;

pub(crate) use mutations::check_patches;
use tree::Tree;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// 1-based.
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

/// Prints every finding; returns their number.
pub(crate) fn run() -> Result<usize> {
    let workspace = Workspace::load()?;
    let tree = Tree::load(workspace.root())?;
    let mut findings = edges::check(&workspace);
    findings.extend(sources::check(&tree));
    findings.extend(language::words(&tree));
    findings.extend(language::sentences(&tree));
    findings.extend(links::resolve(&tree, workspace.root()));
    findings.extend(pages::runbook_has_every_verdict(&tree));
    findings.extend(proof::guarantees_have_checks(&tree));
    findings.extend(proof::proof_tables_are_complete(&tree));
    findings.extend(mutations::patches_apply(&tree));
    // The build may fail because of what the other rules report, so its error comes after their findings.
    let generated = docs::generated(&workspace);
    findings.extend(pages::generated_files_are_current(
        &tree,
        generated.as_deref().unwrap_or_default(),
    ));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    generated.map(|_| findings.len())
}
