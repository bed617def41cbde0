//! The pages with the figures: each benchmark's stand between marks of its own, and the rest is written by people.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;

/// Where the figures stand.
pub(super) const PAGE: &str = "docs/benchmarks.md";

pub(super) fn read(root: &Path, page: &str) -> Result<String> {
    fs::read_to_string(root.join(page)).with_context(cannot("read", page))
}

/// Writes what a benchmark came to between its marks on a page, and leaves the rest as it is.
pub(super) fn record(root: &Path, page: &str, name: &str, text: &str) -> Result<()> {
    let new = with_text(&read(root, page)?, name, text);
    let new = new.with_context(|| format!("{page} has no marks for the figures of {name}"))?;
    fs::write(root.join(page), new).with_context(cannot("write", page))
}

fn with_text(page: &str, name: &str, text: &str) -> Option<String> {
    let (start, stop) = between_marks(page, name)?;
    Some(format!("{}{text}{}", &page[..start], &page[stop..]))
}

/// Where the figures of a benchmark begin and end on the page.
fn between_marks(page: &str, name: &str) -> Option<(usize, usize)> {
    let (begin, end) = (format!("<!-- bench {name} -->\n"), format!("<!-- /bench {name} -->\n"));
    let start = page.find(&begin)? + begin.len();
    Some((start, start + page[start..].find(&end)?))
}

/// The figures of a benchmark as they stand on the page.
pub(super) fn figures<'a>(page: &'a str, name: &str) -> &'a str {
    between_marks(page, name).map_or("", |(start, stop)| &page[start..stop])
}

/// The cells of each row of a benchmark's tables. What stands below a table is no row of it.
pub(super) fn rows<'a>(page: &'a str, name: &str) -> impl Iterator<Item = Vec<&'a str>> {
    let lines = figures(page, name).lines();
    let cells = |row: &'a str| row.trim_end_matches('|').split('|').map(str::trim).collect();
    lines.filter_map(|line| line.strip_prefix('|')).map(cells)
}

/// `1,234` as a number.
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok()
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
        let page = "a\n<!-- bench x -->\n| one | 1,000 |\n- a | 7 |\n<!-- /bench x -->\nb\n\
                    <!-- bench y -->\n<!-- /bench y -->\n";
        for (name, old) in [("x", "| one | 1,000 |\n- a | 7 |\n"), ("y", "")] {
            let marks =
                |text: &str| format!("<!-- bench {name} -->\n{text}<!-- /bench {name} -->\n");
            let expected = page.replace(&marks(old), &marks("new\n"));
            assert_eq!(with_text(page, name, "new\n").unwrap(), expected);
        }
        assert_eq!(with_text(page, "z", "new\n"), None);
        assert_eq!(rows(page, "x").collect::<Vec<_>>(), [["one", "1,000"]]);
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
