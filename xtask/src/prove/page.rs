//! The tables in `docs/proof.md`: what was tried and what was found, without times, which are no promise. One is of runs
//! in full, one of the share that a normal test run has.
//!
//! Only the rows of what was run are written; the others stay as the last such run of theirs left them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;

/// Where it is, from the root.
pub(crate) const PATH: &str = "docs/proof.md";
/// A table ends here; everything outside the two is written by people.
pub(crate) const END: &str = "<!-- end -->";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Of runs with the big counts.
    InFull,
    /// Of what a normal test run tries.
    Share,
}

impl Table {
    /// The line behind which it begins.
    pub(crate) const fn begin(self) -> &'static str {
        match self {
            Self::InFull => "<!-- begin: `cargo xtask prove --nightly` writes this table -->",
            Self::Share => "<!-- begin: `cargo xtask prove` writes this table -->",
        }
    }

    /// What stands before, within and after it.
    fn parts(self, page: &str) -> Option<(&str, &str, &str)> {
        let (before, rest) = page.split_once(self.begin())?;
        let (table, after) = rest.split_once(END)?;
        Some((before, table, after))
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) cases: String,
    pub(crate) found: String,
}

impl Row {
    pub(super) fn new(what: &str, cases: String, found: usize) -> Self {
        Self { what: what.to_owned(), cases, found: found.to_string() }
    }

    fn read(line: &str) -> Option<Self> {
        let cells: Vec<_> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').collect();
        let [what, cases, found] = cells.as_slice() else { return None };
        let [what, cases, found] = [what, cases, found].map(|cell| cell.trim().to_owned());
        Some(Self { what, cases, found }).filter(|row| row.what != "what" && row.what != "---")
    }
}

/// The rows of a table of the page.
pub(crate) fn rows(page: &str, table: Table) -> Vec<Row> {
    table.parts(page).map(|(_, text, _)| read(text)).unwrap_or_default()
}

/// Puts a row into the committed page.
pub(super) fn update(root: &Path, table: Table, row: Row) -> Result<()> {
    let path = root.join(PATH);
    let page = fs::read_to_string(&path).with_context(cannot("read", PATH))?;
    let page = updated(&page, table, row)
        .with_context(|| format!("{PATH} has no table between {:?} and {END:?}", table.begin()))?;
    fs::write(&path, page).with_context(cannot("write", PATH))
}

/// The page with another row; `None` if there is no place for it.
fn updated(page: &str, table: Table, row: Row) -> Option<String> {
    let (before, text, after) = table.parts(page)?;
    let mut all = read(text);
    match all.iter_mut().find(|old| old.what == row.what) {
        Some(old) => *old = row,
        None => all.push(row),
    }
    let lines =
        all.iter().map(|Row { what, cases, found }| format!("| {what} | {cases} | {found} |\n"));
    let lines: String = lines.collect();
    let text = format!("\n\n| what | cases | found |\n|---|---|---|\n{lines}\n");
    Some(format!("{before}{}{text}{END}{after}", table.begin()))
}

fn read(table: &str) -> Vec<Row> {
    table.lines().filter_map(Row::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_this_run_replaces_that_of_the_last_and_others_stay() {
        let (full, share) = (Table::InFull.begin(), Table::Share.begin());
        let page = format!("# A\n\n{full}\n{END}\n\nmore\n\n{share}\n{END}\n");
        let put = |page: &str, what, cases: &str| {
            updated(page, Table::InFull, Row::new(what, cases.to_owned(), 0)).unwrap()
        };
        let page = put(&put(&put(&page, "one", "1 case"), "two", "2"), "two", "20 cases");
        let table = "| what | cases | found |\n|---|---|---|\n| one | 1 case | 0 |\n| two | 20 cases | 0 |\n";
        let rest = format!("\n\nmore\n\n{share}\n{END}\n");
        assert_eq!(page, format!("# A\n\n{full}\n\n{table}\n{END}{rest}"));
        assert_eq!(rows(&page, Table::InFull).len(), 2);
        assert_eq!(rows(&page, Table::Share), []);
        assert_eq!(updated("no place", Table::Share, Row::new("one", String::new(), 0)), None);
    }
}
