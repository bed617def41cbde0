//! Rule `proof`: docs/proof.md has what each way came to, with its share and in full. What it calls a run in full is no less
//! than one by night, and the share of every test run fits the tree.
//!
//! Whether a row is older than the code it speaks of is not for this rule to know.

use super::Finding;
use super::sabotage;
use super::tree::Tree;
use crate::prove::page::{PATH, Row, Table, rows};
use crate::prove::titles;

const RULE: &str = "proof";
/// The page that counts the cells of a run by day.
const MATRIX: &str = "docs/fault-matrix.md";
/// A way, what it counts, and how many of these it tries by night.
const LEAST: [(&str, &str, usize); 8] = [
    ("model check", "distinct states", 1_000_000),
    ("simulation", "seeds", 10_000),
    ("differential oracle", "histories of a store", 1_000),
    ("differential oracle", "histories of a cluster", 300),
    ("differential oracle", "histories of a mesh", 1_000),
    ("canaries", "secrets in memory", 10_000),
    ("canaries", "secrets in a process", 500),
    ("canaries", "secrets in Postgres", 200),
];

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
    let finding = |problem| Finding {
        path: PATH.to_owned(),
        line: 1,
        rule: RULE,
        problem,
        remedy: "run `cargo xtask prove` and `cargo xtask prove --nightly`".to_owned(),
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
    use crate::prove::page::END;

    const IN_FULL: [&str; 6] = [
        "| model check | 15 histories, 1000000 distinct states, 3 of two resources | 0 |",
        "| simulation | 10000 seeds, 3 faults | 0 |",
        "| fault matrix | 30 worlds, 7 cells | 0 |",
        "| differential oracle | 1000 histories of a store, 9 answers, 300 histories of a cluster, \
         1000 histories of a mesh | 0 |",
        "| canaries | 10001 secrets in memory, 200 secrets in Postgres, 1000 secrets in a process | 0 |",
        "| sabotage | 2 broken variants, each caught | 0 |",
    ];

    const SHARES: [&str; 6] = [
        "| model check | 1 case | 0 |",
        "| simulation | 1 case | 0 |",
        "| fault matrix | 30 worlds, 7 cells | 0 |",
        "| differential oracle | 1 case | 0 |",
        "| canaries | 1 case | 0 |",
        "| sabotage | 2 broken variants, of which each fits | 0 |",
    ];

    /// What is wrong with a page that has these rows of runs in full, and these shares.
    fn problems(in_full: &[&str], shares: &[&str]) -> Vec<String> {
        let table = |table: Table, rows: &[&str]| {
            format!(
                "{}\n| what | cases | found |\n|---|---|---|\n{}\n{END}\n",
                table.begin(),
                rows.join("\n")
            )
        };
        let page = format!(
            "# Proof\n\n{}\n{}\n| a fault | found by | its test |\n",
            table(Table::InFull, in_full),
            table(Table::Share, shares)
        );
        let tree = Tree::of_files(&[
            (PATH, &page),
            (MATRIX, "# Matrix\n\n12 worlds, 7 cells, none of them left broken.\n"),
            ("tests/sabotage/act/one.patch", ""),
            ("tests/sabotage/act/two.patch", ""),
        ]);
        has_run_in_full(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn a_row_for_each_way_is_wanted() {
        assert_eq!(problems(&IN_FULL, &SHARES), Vec::<String>::new());
        assert_eq!(problems(&IN_FULL[1..], &SHARES), ["model check was never run in full"]);
        assert_eq!(problems(&IN_FULL, &SHARES[1..]), ["model check was never run with its share"]);
    }

    #[test]
    fn rows_that_say_less_are_found() {
        for (row, problem) in [
            ("| model check | 999999 distinct states | 0 |", "model check tried 999999"),
            ("| simulation | 1000 seeds | 0 |", "simulation tried 1000 seeds, not 10000"),
            (
                "| canaries | 500 secrets in memory, 200 secrets in Postgres, 1000 secrets in a process | 0 |",
                "canaries tried 500 secrets in memory",
            ),
            (
                "| canaries | 10000 secrets in memory, 200 secrets in Postgres | 0 |",
                "canaries tried 0 secrets in a process",
            ),
            ("| simulation | 10000 seeds | 2 |", "simulation found 2"),
        ] {
            let way = row.split(" | ").next().unwrap_or_default();
            let others = IN_FULL.into_iter().filter(|other| !other.starts_with(way));
            let found = problems(&others.chain([row]).collect::<Vec<_>>(), &SHARES);
            assert!(found.len() == 1 && found[0].starts_with(problem), "{row}: {found:?}");
        }
    }

    #[test]
    fn shares_that_do_not_fit_the_tree_are_found() {
        for (row, problem) in [
            ("| fault matrix | 30 worlds, 6 cells | 0 |", "fault matrix tried 6 cells, not 7"),
            ("| sabotage | 3 broken variants | 0 |", "sabotage tried 3 variants, and there are 2"),
        ] {
            let way = row.split(" | ").next().unwrap_or_default();
            let others = SHARES.into_iter().filter(|other| !other.starts_with(way));
            let found = problems(&IN_FULL, &others.chain([row]).collect::<Vec<_>>());
            assert!(found.len() == 1 && found[0].starts_with(problem), "{row}: {found:?}");
        }
    }
}
