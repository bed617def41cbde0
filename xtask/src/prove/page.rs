//! The tables in `docs/proof.md`: cases and findings of each check, without times, which are no guarantee. One table is
//! for nightly runs, one for normal test runs.
//!
//! A run updates only the rows of its checks.

use std::path::Path;

use anyhow::Result;

use crate::page;

pub(crate) const PATH: &str = "docs/proof.md";

/// The marks of a table; the text outside them is hand-written.
type Table = (&'static str, &'static str);

/// For the big counts.
pub(crate) const NIGHTLY_TABLE: Table =
    ("<!-- begin: `cargo xtask prove --nightly` writes this table -->", "<!-- end -->");
/// For the counts of a normal test run.
pub(crate) const NORMAL_TABLE: Table =
    ("<!-- begin: `cargo xtask prove` writes this table -->", "<!-- end -->");

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) check: String,
    pub(crate) cases: String,
    pub(crate) found: String,
}

/// The rows of a table.
pub(crate) fn rows(page: &str, table: Table) -> Vec<Row> {
    let row = |cells: Vec<&str>| {
        let [check, cases, found] = cells[..] else { return None };
        let [check, cases, found] = [check, cases, found].map(str::to_owned);
        Some(Row { check, cases, found }).filter(|row| row.check != "what" && row.check != "---")
    };
    page::rows(page::between(page, table)).filter_map(row).collect()
}

/// Writes a row into the committed page.
pub(super) fn update(root: &Path, table: Table, row: Row) -> Result<()> {
    let text = updated(&page::read(root, PATH)?, table, row);
    page::write(root, PATH, table, &text)
}

/// The table with this row added or replaced.
fn updated(page: &str, table: Table, row: Row) -> String {
    let mut all = rows(page, table);
    match all.iter_mut().find(|old| old.check == row.check) {
        Some(old) => *old = row,
        None => all.push(row),
    }
    let line = |Row { check, cases, found }: &Row| format!("| {check} | {cases} | {found} |\n");
    let lines: String = all.iter().map(line).collect();
    format!("\n\n| what | cases | found |\n|---|---|---|\n{lines}\n")
}
