//! Rule `semver`: what the ports hand around can grow without breaking whoever embeds or implements them.

use super::Finding;
use super::tree::{SourceFile, Tree};

/// Where the rule holds; features that only serve tests may change more freely.
const HOME: &str = "broker-ports/src/";
const ELSEWHERE: [&str; 3] = ["memory", "testing", "mocks"];

/// What may not grow, because somebody has to act on an addition.
/// `docs/decisions/0007-what-may-grow.md` gives the reason for each line.
const EXHAUSTIVE: [&[&str]; 4] = [
    &["ServicePorts", "ReconcilerPorts", "RelayPorts", "Deadlines"],
    &[
        "Written",
        "Created",
        "Replaced",
        "Released",
        "Acknowledged",
        "Applied",
        "DryRun",
        "Deleted",
        "Issue",
        "Retired",
        "FailureClass",
        "Permit",
        "DeliveryFailure",
    ],
    &["XrReading", "Standing", "Arming", "CachedXr", "ConditionStatus", "OwnedRole"],
    &[
        "ClaimTarget",
        "PassOutcome",
        "Due",
        "Resume",
        "Lane",
        "Scope",
        "WriteKind",
        "PortName",
        "EventsOf",
        "Lost",
        "Loss",
        "Allowance",
    ],
];

/// A public type that others can build or take apart.
struct Open<'a> {
    name: &'a str,
    line: usize,
    may_grow: bool,
}

/// A public struct with public fields, or a public enum, is `#[non_exhaustive]` or on the list, not both.
pub(super) fn types_can_grow(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for file in tree.rust_files().filter(|file| is_at_home(&file.path)) {
        for Open { name, line, may_grow } in open_types(file) {
            let listed = EXHAUSTIVE.iter().any(|names| names.contains(&name));
            seen.push(name);
            let (problem, remedy) = match (may_grow, listed) {
                (false, false) => ("cannot grow", "add #[non_exhaustive] and a constructor"),
                (true, true) => ("may grow and is listed", "take it off the list in semver.rs"),
                (false, true) | (true, false) => continue,
            };
            findings.push(finding(&file.path, line, format!("{name} {problem}"), remedy));
        }
        for (line, text) in file.lines().filter(|(_, text)| text.contains("const ALL: [Self")) {
            let problem = format!("its length is part of its type: {}", text.trim());
            findings.push(finding(&file.path, line, problem, "make it a slice: &[Self]"));
        }
    }
    let root = format!("{HOME}lib.rs");
    if tree.file(&root).is_some() {
        let gone = EXHAUSTIVE.iter().copied().flatten().filter(|name| !seen.contains(name));
        findings.extend(gone.map(|name| {
            finding(&root, 1, format!("{name} is gone"), "take it off the list in semver.rs")
        }));
    }
    findings
}

fn finding(path: &str, line: usize, problem: String, remedy: &str) -> Finding {
    Finding::new("semver", path, line, problem, remedy)
}

fn is_at_home(path: &str) -> bool {
    let Some(within) = path.strip_prefix(HOME) else { return false };
    let module = within.split(['/', '.']).next().unwrap_or_default();
    !ELSEWHERE.contains(&module)
}

/// Relies on rustfmt: one attribute, field or head to a line, and a type's head right under its attributes.
fn open_types(file: &SourceFile) -> Vec<Open<'_>> {
    let lines: Vec<_> = file.lines().collect();
    let mut types = Vec::new();
    for (index, (line, text)) in lines.iter().enumerate() {
        let head = text.trim_start();
        let (is_open, rest) = if let Some(rest) = head.strip_prefix("pub enum ") {
            (true, rest)
        } else if let Some(rest) = head.strip_prefix("pub struct ") {
            let fields = lines[index + 1..].iter().map(|(_, text)| text.trim_start());
            let fields = fields.take_while(|field| *field != "}" && rest.ends_with('{'));
            (rest.contains("(pub ") || fields.into_iter().any(|f| f.starts_with("pub ")), rest)
        } else {
            continue;
        };
        let name = rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        let above = lines[..index].iter().rev().map(|(_, text)| text.trim_start());
        let may_grow = above
            .take_while(|text| !text.is_empty() && !text.ends_with(['}', ';']))
            .any(|text| text == "#[non_exhaustive]");
        if is_open {
            types.push(Open { name, line: *line, may_grow });
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_that_cannot_grow_is_found_in_what_does_not_only_serve_tests() {
        let found = |path: &str, text: &str| -> Vec<usize> {
            let findings = types_can_grow(&Tree::of_files(&[(path, text)]));
            findings.iter().map(|finding| finding.line).collect()
        };
        let rows: &[(&str, &str, &[usize])] = &[
            ("an enum", "#[derive(Debug)]\npub enum Fresh {\n    One,\n}\n", &[2]),
            ("a struct", "pub struct Fresh {\n    /// Why.\n    pub id: u32,\n}\n", &[1]),
            ("with a lifetime", "pub struct Fresh<'a> {\n    pub id: &'a str,\n}\n", &[1]),
            ("a newtype that is open", "pub struct Fresh(pub u32);\n", &[1]),
            ("in a macro", "    pub enum Fresh {\n        $one,\n    }\n", &[1]),
            ("below another", "#[non_exhaustive]\npub enum A {}\npub enum Fresh {}\n", &[3]),
            ("a length in a type", "    pub const ALL: [Self; 3] = [];\n", &[1]),
            ("marked", "#[non_exhaustive]\n#[must_use]\npub enum Fresh {}\n", &[]),
            ("listed", "pub enum Written {\n    Committed,\n}\n", &[]),
            ("listed and marked", "#[non_exhaustive]\npub enum Written {\n}\n", &[2]),
            ("closed fields", "pub struct Fresh {\n    id: u32,\n}\npub fn new() {}\n", &[]),
            ("a closed newtype", "pub struct Fresh(u32);\n\npub const A: u32 = 1;\n", &[]),
            ("not public", "pub(crate) enum Fresh {}\nenum Other {}\n", &[]),
            ("a slice", "    pub const ALL: &[Self] = &[];\n", &[]),
        ];
        for (why, text, lines) in rows {
            assert_eq!(found("broker-ports/src/a.rs", text), *lines, "{why}");
        }
        for elsewhere in
            ["broker-ports/src/mocks.rs", "broker-ports/tests/a.rs", "broker-app/src/lib.rs"]
        {
            assert_eq!(found(elsewhere, "pub enum Fresh {}\n"), [0; 0], "{elsewhere}");
        }
        let gone = found("broker-ports/src/lib.rs", "//! Why.\n");
        assert_eq!(
            gone.len(),
            EXHAUSTIVE.iter().copied().flatten().count(),
            "names without a type"
        );
    }
}
