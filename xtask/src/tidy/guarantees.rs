//! Rule `guarantees`: every promise of the table has a check, and every check that is named exists.

use std::collections::BTreeMap;

use super::Finding;
use super::checks;
use super::tree::{SourceFile, Tree};

const PATH: &str = "docs/guarantees.md";
const RULE: &str = "guarantees";
/// Pages whose tables name checks in their code spans.
const PAGES: [&str; 2] = [PATH, "docs/proof.md"];

/// S1 to S16 and L1 to L5.
fn promises() -> impl Iterator<Item = String> {
    let safety = (1..=16).map(|number| format!("S{number}"));
    safety.chain((1..=5).map(|number| format!("L{number}")))
}

pub(super) fn have_their_checks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in PAGES {
        match tree.file(path) {
            Some(page) => findings.extend(named_checks(tree, page)),
            None => findings.push(finding(path, 1, "it does not exist".to_owned(), "write it")),
        }
    }
    if let Some(page) = tree.file(PATH) {
        let mut checks: BTreeMap<String, usize> = promises().map(|name| (name, 0)).collect();
        for (_, line) in page.lines() {
            let promise = line.strip_prefix("| ").and_then(|rest| rest.split_once(' '));
            if let Some(count) = promise.and_then(|(name, _)| checks.get_mut(name)) {
                *count += spans(line).count();
            }
        }
        for (promise, _) in checks.into_iter().filter(|(_, checks)| *checks == 0) {
            let problem = format!("{promise} has no check");
            findings.push(finding(PATH, 1, problem, "give it a row that names one"));
        }
    }
    findings
}

fn named_checks(tree: &Tree, page: &SourceFile) -> Vec<Finding> {
    let rows = page.lines().filter(|(_, line)| line.starts_with('|'));
    rows.flat_map(|(line, text)| {
        spans(text).filter_map(move |check| {
            let problem = checks::problem(tree, check)?;
            Some(finding(&page.path, line, problem, "name the test that stands"))
        })
    })
    .collect()
}

/// What a row of a table has between back-ticks: checks, and nothing else.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn finding(path: &str, line: usize, problem: String, remedy: &str) -> Finding {
    let (path, remedy) = (path.to_owned(), remedy.to_owned());
    Finding { path, line, rule: RULE, problem, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(table: &str) -> Vec<String> {
        let tree = Tree::of_files(&[
            (PATH, table),
            ("docs/proof.md", "text with `code`\n"),
            ("tests/tests/proof/model.rs", "#[test]\nfn it_holds() {}"),
        ]);
        have_their_checks(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn a_promise_without_a_check_and_a_check_that_is_none_are_found() {
        let rows =
            promises().map(|promise| format!("| {promise} | says | `proof model::it_holds` |"));
        let all = rows.collect::<Vec<_>>().join("\n") + "\n";
        assert_eq!(problems(&all), Vec::<String>::new());
        let without = all.replace("| S7 | says | `proof model::it_holds` |\n", "");
        assert_eq!(problems(&without), ["S7 has no check"]);
        let empty = all.replace("| L5 | says | `proof model::it_holds` |", "| L5 | says | |");
        assert_eq!(problems(&empty), ["L5 has no check"]);
        let gone = all.replacen("it_holds", "it_held", 1);
        assert_eq!(problems(&gone), ["there is no test model::it_held in proof"]);
    }
}
