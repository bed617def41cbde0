//! Rules for the guarantees and their checks: `guarantees` and `proof`.
//!
//! The rules cannot tell whether a row is older than the code.

use std::collections::BTreeMap;

use super::tree::{Tree, numbered};
use super::{Finding, checks, mutations};
use crate::prove::CHECKS;
use crate::prove::page::{IN_FULL, PATH, Row, SHARE, rows};

const GUARANTEES: &str = "docs/guarantees.md";

/// The numbers of the last guarantees of safety and of liveness. A new one raises its number here.
const LAST: [(char, u8); 2] = [('S', 21), ('L', 6)];

/// Rule `guarantees`: every guarantee has a check, and every check in a table of either page exists.
pub(super) fn promises_have_their_checks(tree: &Tree) -> Vec<Finding> {
    let finding = |path: &str, line, problem: String| {
        Finding::new("guarantees", path, line, problem, "name an existing test")
    };
    let mut findings = Vec::new();
    for path in [GUARANTEES, PATH] {
        let lines = numbered(tree.text(path).unwrap_or_default());
        for (line, row) in lines.filter(|(_, line)| line.starts_with('|')) {
            let problems = spans(row).filter_map(|check| checks::problem(tree, check));
            findings.extend(problems.map(|problem| finding(path, line, problem)));
        }
    }
    let names = |(kind, last)| (1..=last).map(move |number| (format!("{kind}{number}"), 0));
    let mut checks: BTreeMap<String, usize> = LAST.into_iter().flat_map(names).collect();
    for (number, line) in numbered(tree.text(GUARANTEES).unwrap_or_default()) {
        let promise = line.strip_prefix("| ").and_then(|rest| rest.split_once(' '));
        let Some((name, _)) = promise.filter(|(name, _)| is_guarantee(name)) else { continue };
        match checks.get_mut(name) {
            Some(count) => *count += spans(line).count(),
            None => findings.push(finding(GUARANTEES, number, format!("{name} is not expected"))),
        }
    }
    let without = checks.into_iter().filter(|(_, checks)| *checks == 0);
    findings.extend(
        without.map(|(promise, _)| finding(GUARANTEES, 1, format!("{promise} has no check"))),
    );
    findings
}

/// Whether a cell is the number of a guarantee, such as `S7`.
fn is_guarantee(name: &str) -> bool {
    let number = name.strip_prefix(['S', 'L']);
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The checks of a table row: its text in back-ticks.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The page that counts the cells of a normal run.
const MATRIX: &str = "docs/fault-matrix.md";
/// A check, its unit, and the minimum of a nightly run.
const LEAST: [(&str, &str, usize); 7] = [
    ("model check", "distinct states", 1_000_000),
    ("simulation", "seeds", 10_000),
    ("differential oracle", "histories of a store", 1_000),
    ("differential oracle", "histories of a cluster", 300),
    ("secret leaks", "secrets in memory", 10_000),
    ("secret leaks", "secrets in a process", 500),
    ("secret leaks", "secrets in Postgres", 200),
];

/// Rule `proof`: docs/proof.md has a row per check in both tables. The nightly rows reach the minimum, and the rows of
/// a normal run match the tree.
pub(super) fn has_run_in_full(tree: &Tree) -> Vec<Finding> {
    let page = tree.text(PATH).unwrap_or_default();
    let mut problems = Vec::new();
    for (table, how) in [(IN_FULL, "with the nightly counts"), (SHARE, "with the normal counts")] {
        let rows = rows(page, table);
        let missing =
            CHECKS.iter().filter(|(_, title, _)| rows.iter().all(|row| row.what != *title));
        problems.extend(missing.map(|(_, title, _)| format!("{title} has no run {how}")));
    }
    for row in rows(page, IN_FULL) {
        let least = LEAST.iter().filter(|(what, ..)| *what == row.what);
        problems.extend(least.filter_map(|(_, unit, least)| too_few(&row, unit, *least)));
        let found = format!("{} reports {} unfixed findings", row.what, row.found);
        problems.extend((row.found != "0").then_some(found));
    }
    // A nightly row describes the tree of its run; a row of a normal run must match this tree.
    for row in rows(page, SHARE) {
        match row.what.as_str() {
            // The last line of the page counts the cells.
            "fault matrix" => {
                let matrix = tree.text(MATRIX).unwrap_or_default().lines().last();
                let least = count(matrix.unwrap_or_default(), "cells");
                problems.extend(too_few(&row, "cells", least));
            }
            "mutations" => {
                let (tried, there) =
                    (count(&row.cases, "mutation patches"), mutations::patches(tree).count());
                let differs = format!("mutations tried {tried} patches, not {there}");
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

/// The number with this unit in a row: `12 seeds, 30 faults`.
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

    /// The findings after a replacement on the committed pages, which have none.
    fn found(is: &str, becomes: &str, rule: fn(&Tree) -> Vec<Finding>) -> Vec<String> {
        let mut tree = Tree::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let pages = tree.files.iter_mut().filter(|it| [GUARANTEES, PATH].contains(&&*it.path));
        pages.for_each(|page| page.text = page.text.replacen(is, becomes, 1));
        rule(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn missing_and_unknown_checks_are_found() {
        for (is, becomes, expected) in [
            ("", "", &[][..]),
            ("| S7 ", "| SEVEN ", &["S7 has no check"]),
            ("| L6 ", "| L7 ", &["L7 is not expected", "L6 has no check"]),
            ("model::checks::every_order", "model::checks::any_order", &["there is no test"]),
        ] {
            let found = found(is, becomes, promises_have_their_checks);
            let all = found.iter().zip(expected).all(|(one, other)| one.starts_with(other));
            assert!(all && found.is_empty() == expected.is_empty(), "{is}: {found:?}");
        }
    }

    #[test]
    fn missing_or_insufficient_row_is_found() {
        for (is, becomes, expected) in [
            ("", "", ""),
            (
                "| model check |",
                "| model chess |",
                "model check has no run with the nightly counts",
            ),
            ("| 10000 seeds", "| 1000 seeds", "simulation tried 1000 seeds, not 10000"),
            (" secrets in a process", "", "secret leaks tried 0 secrets in a process, not 500"),
            ("7 kinds | 0 |", "7 kinds | 2 |", "simulation reports 2 unfixed findings"),
            (" mutation patches, all apply", "1 mutation patches, all apply", "mutations tried"),
        ] {
            let found = found(is, becomes, has_run_in_full).join("; ");
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
    }
}
