//! The page with the figures: each benchmark's stand between marks of its own, and the rest is written by people.

use std::fs;
use std::path::Path;

use crate::error::TaskError;

/// Where the figures stand.
pub(super) const PAGE: &str = "docs/benchmarks.md";

pub(super) fn read(root: &Path) -> Result<String, TaskError> {
    let file = |source| TaskError::File { doing: "read", path: PAGE.into(), source };
    fs::read_to_string(root.join(PAGE)).map_err(file)
}

/// Writes what a benchmark came to between its marks on the page, and leaves the rest as it is.
pub(super) fn record(root: &Path, name: &str, text: &str) -> Result<(), TaskError> {
    let file = |source| TaskError::File { doing: "write", path: PAGE.into(), source };
    let page = with_text(&read(root)?, name, text).ok_or_else(|| TaskError::Command {
        what: format!("writing the figures of {name} into {PAGE}"),
        how: "its marks are missing".to_owned(),
    })?;
    fs::write(root.join(PAGE), page).map_err(file)
}

pub(super) fn with_text(page: &str, name: &str, text: &str) -> Option<String> {
    let (start, stop) = between_marks(page, name)?;
    Some(format!("{}{text}{}", &page[..start], &page[stop..]))
}

/// Where the figures of a benchmark begin and end on the page.
pub(super) fn between_marks(page: &str, name: &str) -> Option<(usize, usize)> {
    let (begin, end) = (format!("<!-- bench {name} -->\n"), format!("<!-- /bench {name} -->\n"));
    let start = page.find(&begin)? + begin.len();
    Some((start, start + page[start..].find(&end)?))
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_replace_those_of_the_same_benchmark_only() {
        let page =
            "a\n<!-- bench x -->\nold\n<!-- /bench x -->\nb\n<!-- bench y -->\n<!-- /bench y -->\n";
        assert_eq!(
            with_text(page, "x", "new\n").unwrap(),
            "a\n<!-- bench x -->\nnew\n<!-- /bench x -->\nb\n<!-- bench y -->\n<!-- /bench y -->\n"
        );
        assert_eq!(with_text(page, "z", "new\n"), None);
    }

    #[test]
    fn numbers_are_grouped_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
