//! The table in `docs/proof.md`: what was tried and what was found, without times, which are no promise.
//!
//! Only the rows of what was run in full are written; the others stay as the last such run of theirs left them.

use std::fs;
use std::path::Path;

use crate::error::TaskError;

/// Where it is, from the root.
pub(crate) const PATH: &str = "docs/proof.md";
/// Between these two lines; everything else on the page is written by people.
pub(crate) const BEGIN: &str = "<!-- begin: `cargo xtask prove --nightly` writes this table -->";
pub(crate) const END: &str = "<!-- end -->";

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

/// The rows of the page's table.
pub(crate) fn rows(page: &str) -> Vec<Row> {
    parts(page).map(|(_, table, _)| read(table)).unwrap_or_default()
}

/// Puts rows into the committed page.
pub(super) fn update(root: &Path, rows: impl Iterator<Item = Row>) -> Result<(), TaskError> {
    let path = root.join(PATH);
    let refused = |doing| move |source| TaskError::File { doing, path: PATH.into(), source };
    let page = fs::read_to_string(&path).map_err(refused("read"))?;
    let Some(page) = updated(&page, rows) else {
        let how = format!("it has no table between {BEGIN:?} and {END:?}");
        return Err(TaskError::Command { what: format!("writing {PATH}"), how });
    };
    fs::write(&path, page).map_err(refused("write"))
}

/// The page with other rows; `None` if there is no place for them.
fn updated(page: &str, new: impl Iterator<Item = Row>) -> Option<String> {
    let (before, table, after) = parts(page)?;
    let mut all = read(table);
    for row in new {
        match all.iter_mut().find(|old| old.what == row.what) {
            Some(old) => *old = row,
            None => all.push(row),
        }
    }
    let lines =
        all.iter().map(|Row { what, cases, found }| format!("| {what} | {cases} | {found} |\n"));
    let lines: String = lines.collect();
    let table = format!("\n\n| what | cases | found |\n|---|---|---|\n{lines}\n");
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

/// What stands before, within and after the table.
fn parts(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    Some((before, table, after))
}

fn read(table: &str) -> Vec<Row> {
    table.lines().filter_map(Row::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_this_run_replace_those_of_the_last_and_others_stay() {
        let page = format!("# A\n\n{BEGIN}\n{END}\n\nmore\n");
        let row = |what, cases: &str| Row::new(what, cases.to_owned(), 0);
        let first = updated(&page, [row("one", "1 case"), row("two", "2")].into_iter()).unwrap();
        let second = updated(&first, [row("two", "20 cases")].into_iter()).unwrap();
        let table = "| what | cases | found |\n|---|---|---|\n| one | 1 case | 0 |\n| two | 20 cases | 0 |\n";
        assert_eq!(second, format!("# A\n\n{BEGIN}\n\n{table}\n{END}\n\nmore\n"));
        assert_eq!(updated("no place", [row("one", "1")].into_iter()), None);
    }
}
