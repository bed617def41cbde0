//! Reads and writes the generated tables on hand-written pages, between marks.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;

pub(crate) fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(cannot("read", path))
}

/// Replaces the text between two marks of a page.
pub(crate) fn write(root: &Path, path: &str, marks: (&str, &str), text: &str) -> Result<()> {
    let new = with_text(&read(root, path)?, marks, text);
    let new = new.with_context(|| format!("{path} does not have the marks {marks:?}"))?;
    fs::write(root.join(path), new).with_context(cannot("write", path))
}

fn with_text(page: &str, marks: (&str, &str), text: &str) -> Option<String> {
    let (before, _, after) = parts(page, marks)?;
    Some(format!("{before}{}{text}{}{after}", marks.0, marks.1))
}

/// The text between two marks of a page; empty without them.
pub(crate) fn between<'a>(page: &'a str, marks: (&str, &str)) -> &'a str {
    parts(page, marks).map_or("", |(_, text, _)| text)
}

fn parts<'a>(page: &'a str, (begin, end): (&str, &str)) -> Option<(&'a str, &'a str, &'a str)> {
    let (before, rest) = page.split_once(begin)?;
    let (text, after) = rest.split_once(end)?;
    Some((before, text, after))
}

/// The cells of every table row in a text.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let cells = |row| str::trim_end_matches(row, '|').split('|').map(str::trim).collect();
    text.lines().filter_map(|line| line.strip_prefix('|')).map(cells)
}
