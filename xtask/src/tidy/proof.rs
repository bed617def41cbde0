//! Rules about what is promised and how far that was tried: `guarantees` and `proof`.
//!
//! Whether a row is older than the code it speaks of is not for these rules to know.

use std::collections::BTreeMap;

use super::tree::{Tree, numbered};
use super::{Finding, checks, mutations};
use crate::prove::WAYS;
use crate::prove::page::{IN_FULL, PATH, Row, SHARE, rows};

const GUARANTEES: &str = "docs/guarantees.md";

/// Rule `guarantees`: every promise of the table, S1 to S16 and L1 to L5, has a check, and every check that is named in a
/// table of either page exists.
pub(super) fn promises_have_their_checks(tree: &Tree) -> Vec<Finding> {
    let finding = |path: &str, line, problem: String| {
        Finding::new("guarantees", path, line, problem, "name a test that stands")
    };
    let mut findings = Vec::new();
    for path in [GUARANTEES, PATH] {
        let lines = numbered(tree.text(path).unwrap_or_default());
        for (line, row) in lines.filter(|(_, line)| line.starts_with('|')) {
            let problems = spans(row).filter_map(|check| checks::problem(tree, check));
            findings.extend(problems.map(|problem| finding(path, line, problem)));
        }
    }
    let safety = (1..=16).map(|number| (format!("S{number}"), 0));
    let mut checks: BTreeMap<String, usize> =
        safety.chain((1..=5).map(|number| (format!("L{number}"), 0))).collect();
    for line in tree.text(GUARANTEES).unwrap_or_default().lines() {
        let promise = line.strip_prefix("| ").and_then(|rest| rest.split_once(' '));
        if let Some(count) = promise.and_then(|(name, _)| checks.get_mut(name)) {
            *count += spans(line).count();
        }
    }
    let without = checks.into_iter().filter(|(_, checks)| *checks == 0);
    findings.extend(
        without.map(|(promise, _)| finding(GUARANTEES, 1, format!("{promise} has no check"))),
    );
    findings
}

/// What a row of a table has between back-ticks: checks, and nothing else.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The page that counts the cells of a run by day.
const MATRIX: &str = "docs/fault-matrix.md";
/// A way, what it counts, and how many of these it tries by night.
const LEAST: [(&str, &str, usize); 7] = [
    ("model check", "distinct states", 1_000_000),
    ("simulation", "seeds", 10_000),
    ("differential oracle", "histories of a store", 1_000),
    ("differential oracle", "histories of a cluster", 300),
    ("secret_leaks", "secrets in memory", 10_000),
    ("secret_leaks", "secrets in a process", 500),
    ("secret_leaks", "secrets in Postgres", 200),
];

/// Rule `proof`: docs/proof.md has what each way came to, with its share and in full. What it calls a run in full is no less
/// than one by night, and the share of every test run fits the tree.
pub(super) fn has_run_in_full(tree: &Tree) -> Vec<Finding> {
    let page = tree.text(PATH).unwrap_or_default();
    let mut problems = Vec::new();
    for (table, how) in [(IN_FULL, "in full"), (SHARE, "with its share")] {
        let rows = rows(page, table);
        let missing = WAYS.iter().filter(|(_, title, _)| rows.iter().all(|row| row.what != *title));
        problems.extend(missing.map(|(_, title, _)| format!("{title} was never run {how}")));
    }
    for row in rows(page, IN_FULL) {
        let least = LEAST.iter().filter(|(what, ..)| *what == row.what);
        problems.extend(least.filter_map(|(_, unit, least)| too_few(&row, unit, *least)));
        let found = format!("{} found {}, and is not mended", row.what, row.found);
        problems.extend((row.found != "0").then_some(found));
    }
    // A run in full tells of the tree that it ran on; the share of every test run has to fit this one.
    for row in rows(page, SHARE) {
        match row.what.as_str() {
            // The page of the matrix counts them in its last line.
            "fault matrix" => {
                let matrix = tree.text(MATRIX).unwrap_or_default().lines().last();
                let least = count(matrix.unwrap_or_default(), "cells");
                problems.extend(too_few(&row, "cells", least));
            }
            "mutations" => {
                let (tried, there) =
                    (count(&row.cases, "broken variants"), mutations::patches(tree).count());
                let differs = format!("mutations tried {tried} variants, and there are {there}");
                problems.extend((tried != there).then_some(differs));
            }
            _ => {}
        }
    }
    let remedy = "run `cargo xtask prove` and `cargo xtask prove --nightly`";
    let finding = |problem| Finding::new("proof", PATH, 1, problem, remedy);
    problems.into_iter().map(finding).collect()
}

fn too_few(row: &Row, unit: &str, least: usize) -> Option<String> {
    let tried = count(&row.cases, unit);
    (tried < least).then(|| format!("{} tried {tried} {unit}, not {least}", row.what))
}

/// How many of something a row counts: `12 seeds, 30 faults`.
fn count(cases: &str, unit: &str) -> usize {
    let number = |part: &str| {
        let (number, rest) = part.trim().split_once(' ')?;
        rest.starts_with(unit).then(|| number.parse().ok())?
    };
    cases.split(", ").find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The committed pages, in which something is changed: nothing is wrong with them as they are.
    fn found(is: &str, becomes: &str, rule: fn(&Tree) -> Vec<Finding>) -> Vec<String> {
        let mut tree = Tree::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let pages = tree.files.iter_mut().filter(|it| [GUARANTEES, PATH].contains(&&*it.path));
        pages.for_each(|page| page.text = page.text.replacen(is, becomes, 1));
        rule(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn promise_without_a_check_and_a_check_that_is_none_are_found() {
        for (is, becomes, expected) in [
            ("", "", &[][..]),
            ("| S7 ", "| SEVEN ", &["S7 has no check"]),
            ("model::checks::every_order", "model::checks::any_order", &["there is no test"]),
        ] {
            let found = found(is, becomes, promises_have_their_checks);
            let all = found.iter().zip(expected).all(|(one, other)| one.starts_with(other));
            assert!(all && found.is_empty() == expected.is_empty(), "{is}: {found:?}");
        }
    }

    #[test]
    fn row_that_is_missing_or_says_less_than_a_run_tries_is_found() {
        for (is, becomes, expected) in [
            ("", "", ""),
            ("| model check |", "| model chess |", "model check was never run in full"),
            ("| 10000 seeds", "| 1000 seeds", "simulation tried 1000 seeds, not 10000"),
            (" secrets in a process", "", "secret_leaks tried 0 secrets in a process, not 500"),
            ("7 kinds | 0 |", "7 kinds | 2 |", "simulation found 2, and is not mended"),
            (" broken variants, of", "1 broken variants, of", "mutations tried"),
        ] {
            let found = found(is, becomes, has_run_in_full).join("; ");
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
    }
}
