//! Rule `proof`: what docs/proof.md says was tried is a run in full, of the product and its checks as they are.
//!
//! A way that was not run in full has no row; a row that is there may not say less than a run by night tries.

use super::Finding;
use super::sabotage;
use super::tree::Tree;
use crate::prove::page::{PATH, Row, rows};

const RULE: &str = "proof";
/// The page that counts the cells of a run by day.
const MATRIX: &str = "docs/fault-matrix.md";
/// A way, what it counts, and how many of these it tries by night.
const LEAST: [(&str, &str, usize); 6] = [
    ("model check", "distinct states", 1_000_000),
    ("simulation", "seeds", 10_000),
    ("differential oracle", "histories of a store", 1_000),
    ("differential oracle", "histories of a cluster", 300),
    ("differential oracle", "histories of a mesh", 1_000),
    ("canaries", "secrets", 10_000),
];

pub(super) fn has_run_in_full(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PATH) else { return Vec::new() };
    let mut problems = Vec::new();
    for row in rows(&page.text) {
        let least = LEAST.iter().filter(|(what, ..)| *what == row.what);
        problems.extend(least.filter_map(|(_, unit, least)| too_few(&row, unit, *least)));
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
        let found = format!("{} found {}, and is not mended", row.what, row.found);
        problems.extend((row.found != "0").then_some(found));
    }
    let finding = |problem| Finding {
        path: PATH.to_owned(),
        line: 1,
        rule: RULE,
        problem,
        remedy: "run `cargo xtask prove --nightly`, or take the row out until somebody has"
            .to_owned(),
    };
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
    use super::*;
    use crate::prove::page::{BEGIN, END};

    fn problems(row: &str) -> Vec<String> {
        let table = format!("| what | cases | found |\n|---|---|---|\n{row}\n");
        let page =
            format!("# Proof\n\n{BEGIN}\n{table}{END}\n\n| a fault | found by | its test |\n");
        let tree = Tree::of_files(&[
            (PATH, &page),
            (MATRIX, "# Matrix\n\n12 worlds, 7 cells, none of them left broken.\n"),
            ("tests/sabotage/act/one.patch", ""),
            ("tests/sabotage/act/two.patch", ""),
        ]);
        has_run_in_full(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn rows_of_a_run_in_full_and_rows_that_are_not_there_are_fine() {
        for row in [
            "",
            "| model check | 15 histories, 1000000 distinct states, 3 of two resources | 0 |",
            "| simulation | 10000 seeds, 3 faults | 0 |",
            "| differential oracle | 1000 histories of a store, 9 answers, 300 histories of a cluster, \
             1000 histories of a mesh | 0 |",
            "| canaries | 10001 secrets in memory | 0 |",
            "| fault matrix | 30 worlds, 7 cells | 0 |",
            "| sabotage | 2 broken variants, each caught | 0 |",
        ] {
            assert_eq!(problems(row), Vec::<String>::new(), "{row}");
        }
    }

    #[test]
    fn rows_that_say_less_are_found() {
        for (row, problem) in [
            ("| model check | 999999 distinct states | 0 |", "model check tried 999999"),
            ("| simulation | 1000 seeds | 0 |", "simulation tried 1000 seeds, not 10000"),
            ("| canaries | 500 secrets in memory | 0 |", "canaries tried 500 secrets"),
            ("| canaries | no number | 0 |", "canaries tried 0 secrets"),
            ("| fault matrix | 30 worlds, 6 cells | 0 |", "fault matrix tried 6 cells, not 7"),
            ("| sabotage | 3 broken variants | 0 |", "sabotage tried 3 variants, and there are 2"),
            ("| simulation | 10000 seeds | 2 |", "simulation found 2"),
        ] {
            let found = problems(row);
            assert!(found.len() == 1 && found[0].starts_with(problem), "{row}: {found:?}");
        }
    }
}
