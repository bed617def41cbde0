//! Rules about what is promised and how far that was tried: `guarantees` and `proof`.
//!
//! Whether a row is older than the code it speaks of is not for these rules to know.

use std::collections::BTreeMap;

use super::tree::{SourceFile, Tree};
use super::{Finding, checks, sabotage};
use crate::prove::page::{PATH, Row, Table, rows};
use crate::prove::titles;

const GUARANTEES: &str = "docs/guarantees.md";

/// Rule `guarantees`: every promise of the table, S1 to S16 and L1 to L5, has a check, and every check that is named in a
/// table of either page exists.
pub(super) fn promises_have_their_checks(tree: &Tree) -> Vec<Finding> {
    let finding = |path: &str, line, problem: String| {
        Finding::new("guarantees", path, line, problem, "name a test that stands")
    };
    let mut findings = Vec::new();
    for path in [GUARANTEES, PATH] {
        let lines = tree.file(path).into_iter().flat_map(SourceFile::lines);
        for (line, row) in lines.filter(|(_, line)| line.starts_with('|')) {
            let problems = spans(row).filter_map(|check| checks::problem(tree, check));
            findings.extend(problems.map(|problem| finding(path, line, problem)));
        }
    }
    let safety = (1..=16).map(|number| (format!("S{number}"), 0));
    let mut checks: BTreeMap<String, usize> =
        safety.chain((1..=5).map(|number| (format!("L{number}"), 0))).collect();
    for (_, line) in tree.file(GUARANTEES).into_iter().flat_map(SourceFile::lines) {
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
    ("canaries", "secrets in memory", 10_000),
    ("canaries", "secrets in a process", 500),
    ("canaries", "secrets in Postgres", 200),
];

/// Rule `proof`: docs/proof.md has what each way came to, with its share and in full. What it calls a run in full is no less
/// than one by night, and the share of every test run fits the tree.
pub(super) fn has_run_in_full(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PATH) else { return Vec::new() };
    let mut problems = Vec::new();
    for (table, how) in [(Table::InFull, "in full"), (Table::Share, "with its share")] {
        let rows = rows(&page.text, table);
        let missing = titles().filter(|title| !rows.iter().any(|row| row.what == *title));
        problems.extend(missing.map(|title| format!("{title} was never run {how}")));
    }
    for row in rows(&page.text, Table::InFull) {
        let least = LEAST.iter().filter(|(what, ..)| *what == row.what);
        problems.extend(least.filter_map(|(_, unit, least)| too_few(&row, unit, *least)));
        let found = format!("{} found {}, and is not mended", row.what, row.found);
        problems.extend((row.found != "0").then_some(found));
    }
    // A run in full tells of the tree that it ran on; the share of every test run has to fit this one.
    for row in rows(&page.text, Table::Share) {
        match row.what.as_str() {
            "fault matrix" => problems.extend(too_few(&row, "cells", cells_by_day(tree))),
            "sabotage" => {
                let (tried, there) =
                    (count(&row, "broken variants"), sabotage::patches(tree).count());
                let differs = format!("sabotage tried {tried} variants, and there are {there}");
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
    let tried = count(row, unit);
    (tried < least).then(|| format!("{} tried {tried} {unit}, not {least}", row.what))
}

/// How many of something a row counts: `12 seeds, 30 faults`.
fn count(row: &Row, unit: &str) -> usize {
    numbered(&row.cases, unit).unwrap_or(0)
}

fn numbered(text: &str, unit: &str) -> Option<usize> {
    text.split(", ").find_map(|part| {
        let (number, rest) = part.trim().split_once(' ')?;
        rest.starts_with(unit).then(|| number.parse().ok())?
    })
}

/// What the page of the matrix counts in its last line.
fn cells_by_day(tree: &Tree) -> usize {
    let last = tree.file(MATRIX).and_then(|page| page.text.lines().last());
    last.and_then(|line| numbered(line, "cells")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::problems;
    use super::*;
    use crate::prove::page::END;

    #[test]
    fn promise_without_a_check_and_a_check_that_is_none_are_found() {
        let names = (1..=16).map(|it| format!("S{it}")).chain((1..=5).map(|it| format!("L{it}")));
        let row = |promise: String| format!("| {promise} | says | `proof model::it_holds` |\n");
        let all: String = names.map(row).collect();
        for (is, becomes, expected) in [
            ("", "", None),
            ("| S7 | says | `proof model::it_holds` |\n", "", Some("S7 has no check")),
            ("| L5 | says | `proof model::it_holds` |", "| L5 | says | |", Some("L5 has no check")),
            (
                "| S1 | says | `proof model::it_holds",
                "| S1 | says | `proof model::it_held",
                Some("there is no test model::it_held in proof"),
            ),
        ] {
            let page = all.replace(is, becomes);
            let test = ("tests/tests/proof/model.rs", "#[test]\nfn it_holds() {}");
            let page = [(GUARANTEES, page.as_str()), (PATH, "text with `code`\n"), test];
            assert_eq!(problems("guarantees", &page), Vec::from_iter(expected), "{is}");
        }
    }

    const IN_FULL: &str = "\
| model check | 15 histories, 1000000 distinct states, 3 of two resources | 0 |
| simulation | 10000 seeds, 3 faults | 0 |
| fault matrix | 30 worlds, 7 cells | 0 |
| differential oracle | 1000 histories of a store, 9 answers, 300 histories of a cluster | 0 |
| canaries | 10001 secrets in memory, 200 secrets in Postgres, 1000 secrets in a process | 0 |
| sabotage | 2 broken variants, each caught | 0 |
";
    const SHARES: &str = "\
| model check | 1 case | 0 |
| simulation | 1 case | 0 |
| fault matrix | 30 worlds, 7 cells | 0 |
| differential oracle | 1 case | 0 |
| canaries | 1 case | 0 |
| sabotage | 2 broken variants, of which each fits | 0 |
";

    #[test]
    fn row_that_is_missing_or_says_less_than_a_run_tries_is_found() {
        for (is, becomes, expected) in [
            ("", "", ""),
            ("| model check | 15", "| model chess | 15", "model check was never run in full"),
            (
                "| model check | 1 ",
                "| model chess | 1 ",
                "model check was never run with its share",
            ),
            (
                "1000000 distinct",
                "999999 distinct",
                "model check tried 999999 distinct states, not 1000000",
            ),
            ("10000 seeds", "1000 seeds", "simulation tried 1000 seeds, not 10000"),
            (
                "10001 secrets in memory",
                "500 secrets in memory",
                "canaries tried 500 secrets in memory, not 10000",
            ),
            (", 1000 secrets in a process", "", "canaries tried 0 secrets in a process, not 500"),
            ("3 faults | 0 |", "3 faults | 2 |", "simulation found 2, and is not mended"),
            (
                "7 cells | 0 |\n| differential oracle | 1 case",
                "6 cells | 0 |\n| differential oracle | 1 case",
                "fault matrix tried 6 cells, not 7",
            ),
            (
                "2 broken variants, of",
                "3 broken variants, of",
                "sabotage tried 3 variants, and there are 2",
            ),
        ] {
            let table = |table: Table, rows: &str| {
                let head = "| what | cases | found |\n|---|---|---|";
                format!("{}\n{head}\n{}{END}\n", table.begin(), rows.replace(is, becomes))
            };
            let page = table(Table::InFull, IN_FULL) + &table(Table::Share, SHARES);
            let tree = Tree::of_files(&[
                (PATH, &page),
                (MATRIX, "# Matrix\n\n12 worlds, 7 cells, none of them left broken.\n"),
                ("tests/sabotage/act/one.patch", ""),
                ("tests/sabotage/act/two.patch", ""),
            ]);
            let found = has_run_in_full(&tree).into_iter().map(|it| it.problem).collect::<String>();
            assert_eq!(found, expected, "{is}");
        }
    }
}
