//! Rule `semver`: fields and variants of port types can be added without breaking embedders and implementers.

use super::Finding;
use super::tree::{Tree, numbered};

/// The listing of all public items that the rule reads.
const LISTING: &str = "docs/api/broker-ports.txt";

/// The page that lists exhaustive types with reasons: their users must handle an addition.
const EXHAUSTIVE: &str = "docs/decisions/0007-compatible-growth-of-the-ports.md";

/// A public struct with public fields, and a public enum, is either `#[non_exhaustive]` or on the list.
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
    let listing = tree.text(LISTING).unwrap_or_default();
    for (line, item) in numbered(listing) {
        if let Some(name) = open_type(item, listing) {
            seen.push(name);
            let may_grow = item.starts_with("#[non_exhaustive] ");
            let (problem, remedy) = match (may_grow, listed.contains(&name)) {
                (false, false) => ("cannot grow", "add #[non_exhaustive] and a constructor"),
                (true, true) => ("is #[non_exhaustive] and listed", "remove it from the list"),
                (false, true) | (true, false) => continue,
            };
            findings.push(finding(LISTING, line, format!("{name} {problem}"), remedy));
        } else if item.contains("::ALL: [Self; ") {
            let problem = format!("the array length is part of the type: {item}");
            findings.push(finding(LISTING, line, problem, "use a slice: &[Self]"));
        }
    }
    let missing = listed.iter().filter(|name| !seen.contains(name));
    findings.extend(missing.map(|name| {
        finding(EXHAUSTIVE, 1, format!("{name} does not exist"), "remove it from the list")
    }));
    findings
}

/// The name of a type that other crates can construct or destructure.
fn open_type<'a>(item: &'a str, listing: &str) -> Option<&'a str> {
    let item = item.strip_prefix("#[non_exhaustive] ").unwrap_or(item);
    let (kind, rest) = item.strip_prefix("pub ")?.split_once(' ')?;
    let path = rest.split(['<', '(']).next()?;
    let field = format!("pub {path}::");
    let is_field = |line: &str| {
        let name = line.strip_prefix(&field).and_then(|rest| rest.split_once(": "));
        name.is_some_and(|(name, _)| !name.contains([':', '(']))
    };
    let is_open = kind == "enum" || (kind == "struct" && listing.lines().any(is_field));
    is_open.then(|| path.rsplit(':').next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhaustive_type_is_found() {
        let rows: [(&str, &str, &[usize]); 8] = [
            ("an enum", "pub enum p::Fresh\npub p::Fresh::One\n", &[1]),
            ("a struct", "pub mod p\npub struct p::Fresh<'a>\npub p::Fresh::id: u32\n", &[2]),
            (
                "a newtype that is open",
                "pub struct p::Fresh(pub u32)\npub p::Fresh::0: u32\n",
                &[1],
            ),
            ("a length in a type", "pub const p::Fresh::ALL: [Self; 3]\n", &[1]),
            ("listed and marked", "#[non_exhaustive] pub enum p::Written\n", &[1]),
            ("marked", "#[non_exhaustive] pub enum p::Fresh\n", &[]),
            ("listed", "pub enum p::Written\npub p::Written::Committed\n", &[]),
            ("closed fields", "pub struct p::Fresh\npub fn p::Fresh::new() -> Self\n", &[]),
        ];
        for (reason, text, expected) in rows {
            let files = [(LISTING, text), (EXHAUSTIVE, "- an effect: `Written`\n")];
            let found = types_can_grow(&Tree::of_files(&files)).into_iter();
            let found = found.filter(|it| it.path != EXHAUSTIVE).map(|it| it.line);
            assert_eq!(found.collect::<Vec<_>>(), expected, "{reason}");
        }
    }
}
