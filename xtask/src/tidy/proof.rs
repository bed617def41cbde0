//! Rules for the guarantees and their checks: `guarantees` and `proof`.
//!
//! The rules do not detect rows that are older than the code.

use std::collections::BTreeMap;

use super::tree::{Tree, numbered};
use super::{Finding, checks, mutations};
use crate::prove::CHECKS;
use crate::prove::page::{NIGHTLY_TABLE, NORMAL_TABLE, PATH, Row, rows};

const GUARANTEES: &str = "docs/guarantees.md";

/// The numbers of the last safety and liveness guarantees. Raise them for a new guarantee.
const LAST_GUARANTEES: [(char, u8); 2] = [('S', 22), ('L', 7)];

/// Rule `guarantees`: every guarantee has a check, and every check in a table of either page exists.
pub(super) fn guarantees_have_checks(tree: &Tree) -> Vec<Finding> {
    let finding = |path: &str, line, problem: String| {
        Finding::new("guarantees", path, line, problem, "name an existing test")
    };
    let mut findings = Vec::new();
    for path in [GUARANTEES, PATH] {
        let lines = numbered(tree.text(path).unwrap_or_default());
        for (line, row) in lines.filter(|(_, line)| line.starts_with('|')) {
            let problems = named_checks(row).filter_map(|check| checks::problem(tree, check));
            findings.extend(problems.map(|problem| finding(path, line, problem)));
        }
    }
    let names = |(kind, last)| (1..=last).map(move |number| (format!("{kind}{number}"), 0));
    let mut checks: BTreeMap<String, usize> = LAST_GUARANTEES.into_iter().flat_map(names).collect();
    for (number, line) in numbered(tree.text(GUARANTEES).unwrap_or_default()) {
        let guarantee = line.strip_prefix("| ").and_then(|rest| rest.split_once(' '));
        let Some((name, _)) = guarantee.filter(|(name, _)| is_guarantee(name)) else { continue };
        match checks.get_mut(name) {
            Some(count) => *count += named_checks(line).count(),
            None => findings.push(finding(GUARANTEES, number, format!("{name} is unknown"))),
        }
    }
    let unchecked = checks.into_iter().filter(|(_, checks)| *checks == 0);
    findings.extend(
        unchecked.map(|(guarantee, _)| finding(GUARANTEES, 1, format!("{guarantee} has no check"))),
    );
    findings
}

/// Whether a cell is the number of a guarantee, such as `S7`.
fn is_guarantee(name: &str) -> bool {
    let number = name.strip_prefix(['S', 'L']);
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The checks of a table row: its text in back-ticks.
fn named_checks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The page that counts the cells of a normal run.
const MATRIX: &str = "docs/fault-matrix.md";
/// A check, its unit, and the minimum of a nightly run.
const NIGHTLY_MINIMUMS: [(&str, &str, usize); 7] = [
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
pub(super) fn proof_tables_are_complete(tree: &Tree) -> Vec<Finding> {
    let page = tree.text(PATH).unwrap_or_default();
    let mut problems = Vec::new();
    for (table, counts) in
        [(NIGHTLY_TABLE, "with the nightly counts"), (NORMAL_TABLE, "with the normal counts")]
    {
        let rows = rows(page, table);
        let missing =
            CHECKS.iter().filter(|(_, title, _)| rows.iter().all(|row| row.check != *title));
        problems.extend(missing.map(|(_, title, _)| format!("{title} has no run {counts}")));
    }
    for row in rows(page, NIGHTLY_TABLE) {
        let minimums = NIGHTLY_MINIMUMS.iter().filter(|(check, ..)| *check == row.check);
        problems.extend(minimums.filter_map(|(_, unit, minimum)| too_few(&row, unit, *minimum)));
        let found = format!("{} reports {} unfixed findings", row.check, row.found);
        problems.extend((row.found != "0").then_some(found));
    }
    // A nightly row describes the tree of its run; a row of a normal run must match this tree.
    for row in rows(page, NORMAL_TABLE) {
        match row.check.as_str() {
            // The last line of the page counts the cells.
            "fault matrix" => {
                let matrix = tree.text(MATRIX).unwrap_or_default().lines().last();
                let minimum = count(matrix.unwrap_or_default(), "cells");
                problems.extend(too_few(&row, "cells", minimum));
            }
            "mutations" => {
                let (tried, existing) =
                    (count(&row.cases, "mutation patches"), mutations::patches(tree).count());
                let differs = format!("mutations tried {tried} patches, not {existing}");
                problems.extend((tried != existing).then_some(differs));
            }
            _ => {}
        }
    }
    let remedy = "run `cargo xtask prove` and `cargo xtask prove --nightly`";
    let finding = |problem| Finding::new("proof", PATH, 1, problem, remedy);
    problems.into_iter().map(finding).collect()
}

fn too_few(row: &Row, unit: &str, minimum: usize) -> Option<String> {
    let tried = count(&row.cases, unit);
    (tried < minimum).then(|| format!("{} tried {tried} {unit}, not {minimum}", row.check))
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
            ("| L7 ", "| L8 ", &["L8 is unknown", "L7 has no check"]),
            ("model::checks::every_order", "model::checks::any_order", &["proof has no test"]),
        ] {
            let found = found(is, becomes, guarantees_have_checks);
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
            let found = found(is, becomes, proof_tables_are_complete).join("; ");
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
    }
}
