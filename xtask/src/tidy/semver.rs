//! Rule `semver`: what the ports hand around can grow without breaking whoever embeds or implements them.

use super::Finding;
use super::tree::{SourceFile, Tree, numbered};

/// Where the rule holds.
const HOME: &str = "broker-ports/src/";

/// The page that lists what may not grow, because somebody has to act on an addition, with the reason for each.
const EXHAUSTIVE: &str = "docs/decisions/0007-what-may-grow.md";

/// A public type that others can build or take apart.
struct Open<'a> {
    name: &'a str,
    line: usize,
    may_grow: bool,
}

/// A public struct with public fields, or a public enum, is `#[non_exhaustive]` or on the list, not both.
pub(super) fn types_can_grow(tree: &Tree) -> Vec<Finding> {
    let finding = |path: &str, line, problem: String, remedy: &str| {
        Finding::new("semver", path, line, problem, remedy)
    };
    // The types that its list items name.
    let items = tree.text(EXHAUSTIVE).unwrap_or_default().lines();
    let items = items.filter(|line| line.starts_with("- ") || line.starts_with("  "));
    let listed: Vec<_> = items.flat_map(|item| item.split('`').skip(1).step_by(2)).collect();
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for file in tree.rust_files().filter(|file| file.path.starts_with(HOME)) {
        for Open { name, line, may_grow } in open_types(file) {
            seen.push(name);
            let (problem, remedy) = match (may_grow, listed.contains(&name)) {
                (false, false) => ("cannot grow", "add #[non_exhaustive] and a constructor"),
                (true, true) => ("may grow and is listed", "take it off the list"),
                (false, true) | (true, false) => continue,
            };
            findings.push(finding(&file.path, line, format!("{name} {problem}"), remedy));
        }
        let lines = numbered(&file.text).filter(|(_, text)| text.contains("const ALL: [Self"));
        findings.extend(lines.map(|(line, text)| {
            let problem = format!("its length is part of its type: {}", text.trim());
            finding(&file.path, line, problem, "make it a slice: &[Self]")
        }));
    }
    let gone = listed.iter().filter(|name| !seen.contains(name));
    findings.extend(
        gone.map(|name| finding(EXHAUSTIVE, 1, format!("{name} is gone"), "take it off the list")),
    );
    findings
}

/// Relies on rustfmt: one attribute, field or head to a line, and a type's head right under its attributes.
fn open_types(file: &SourceFile) -> Vec<Open<'_>> {
    let lines: Vec<_> = file.text.lines().map(str::trim_start).collect();
    let mut types = Vec::new();
    for (index, head) in lines.iter().enumerate() {
        let (is_open, rest) = if let Some(rest) = head.strip_prefix("pub enum ") {
            (true, rest)
        } else if let Some(rest) = head.strip_prefix("pub struct ") {
            let mut fields = lines[index + 1..].iter().take_while(|field| **field != "}");
            let is_open = rest.ends_with('{') && fields.any(|field| field.starts_with("pub "));
            (is_open || rest.contains("(pub "), rest)
        } else {
            continue;
        };
        let name = rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        let mut above = lines[..index].iter().rev();
        let mut above = above.by_ref().take_while(|it| !it.is_empty() && !it.ends_with(['}', ';']));
        let may_grow = above.any(|text| *text == "#[non_exhaustive]");
        if is_open {
            types.push(Open { name, line: index + 1, may_grow });
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_that_cannot_grow_is_found() {
        let rows: [(&str, &str, &[usize]); 10] = [
            ("an enum", "#[derive(Debug)]\npub enum Fresh {\n    One,\n}\n", &[2]),
            ("a struct", "pub struct Fresh<'a> {\n    /// Why.\n    pub id: u32,\n}\n", &[1]),
            ("a newtype that is open", "pub struct Fresh(pub u32);\n", &[1]),
            ("below another", "#[non_exhaustive]\npub enum A {}\npub enum Fresh {}\n", &[3]),
            ("a length in a type", "    pub const ALL: [Self; 3] = [];\n", &[1]),
            ("listed and marked", "#[non_exhaustive]\npub enum Written {\n}\n", &[2]),
            ("marked", "#[non_exhaustive]\n#[must_use]\npub enum Fresh {}\n", &[]),
            ("listed", "pub enum Written {\n    Committed,\n}\n", &[]),
            ("closed fields", "pub struct Fresh {\n    id: u32,\n}\npub fn new() {}\n", &[]),
            ("not public", "pub(crate) enum Fresh {}\nenum Other {}\n", &[]),
        ];
        for (why, text, expected) in rows {
            let files = [("broker-ports/src/a.rs", text), (EXHAUSTIVE, "- an effect: `Written`\n")];
            let found = types_can_grow(&Tree::of_files(&files)).into_iter();
            let found = found.filter(|it| it.path != EXHAUSTIVE).map(|it| it.line);
            assert_eq!(found.collect::<Vec<_>>(), expected, "{why}");
        }
    }
}
