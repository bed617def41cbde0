//! What is read from the text of a `Cargo.toml`: rule `lints`, and the line of a dependency.

use cargo_metadata::DependencyKind;

use super::Finding;
use super::tree::{Dependency, Tree};

/// Rule `lints`: the lints stand once, in the workspace, and every member takes them from there.
pub(super) fn lints_are_shared(tree: &Tree) -> Vec<Finding> {
    let without = tree.members.iter().filter(|member| {
        let text = tree.file(&member.manifest).map_or("", |file| file.text.as_str());
        !takes_workspace_lints(text)
    });
    let findings = without.map(|member| Finding {
        path: member.manifest.clone(),
        line: 1,
        rule: "lints",
        problem: format!("{} does not take the workspace's lints", member.name),
        remedy: "add `[lints]` with `workspace = true`".to_owned(),
    });
    findings.collect()
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let entries = entries(manifest).filter(|entry| entry.value == "true");
    entries.into_iter().any(|entry| {
        matches!((entry.section, entry.key), ("lints", "workspace") | ("", "lints.workspace"))
    })
}

/// The line on which a manifest names a dependency; the first if it cannot be told.
pub(super) fn dependency_line(tree: &Tree, manifest: &str, dependency: &Dependency) -> usize {
    let section = match dependency.kind {
        DependencyKind::Development => "dev-dependencies",
        DependencyKind::Build => "build-dependencies",
        DependencyKind::Normal | DependencyKind::Unknown => "dependencies",
    };
    let text = tree.file(manifest).map_or("", |file| file.text.as_str());
    let is_it = |entry: &Entry<'_>| {
        // `[dependencies] x = …`, `[dependencies] x.workspace = …`, `[dependencies.x] …`, each also
        // under a `target.….`.
        let (section_of_entry, key) = match entry.section.rsplit_once('.') {
            Some((parent, key))
                if parent == section || parent.ends_with(&format!(".{section}")) =>
            {
                (section, key)
            }
            Some((_, last)) if last == section => (section, entry.key),
            _ => (entry.section, entry.key),
        };
        section_of_entry == section
            && key.split('.').next().is_some_and(|key| key.trim_matches('"') == dependency.key)
    };
    entries(text).find(is_it).map_or(1, |entry| entry.line)
}

/// A line `key = value` under a `[section]`.
struct Entry<'a> {
    line: usize,
    section: &'a str,
    key: &'a str,
    value: &'a str,
}

/// The entries of a manifest. Lines within a longer value look like none, or like ones that nobody
/// asks for.
fn entries(manifest: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut section = "";
    manifest.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim_matches(['[', ']']).trim();
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some(Entry { line: index + 1, section, key: key.trim(), value: value.trim() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Member;

    fn tree(manifest: &str) -> Tree {
        let mut tree = Tree::of_files(&[("a/Cargo.toml", manifest)]);
        let member = Member {
            name: "a".to_owned(),
            manifest: "a/Cargo.toml".to_owned(),
            dependencies: Vec::new(),
        };
        tree.members.push(member);
        tree
    }

    #[test]
    fn a_member_without_the_workspaces_lints_is_found() {
        for (manifest, found) in [
            ("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n", 0),
            ("lints.workspace = true\n", 0),
            ("[package]\nname = \"a\"\n", 1),
            ("[lints.rust]\nunsafe_code = \"deny\"\n", 1),
            ("[lints]\nworkspace = false\n", 1),
            ("[dependencies]\nworkspace = true\n", 1),
        ] {
            assert_eq!(lints_are_shared(&tree(manifest)).len(), found, "{manifest}");
        }
    }

    #[test]
    fn a_dependency_is_found_in_its_section() {
        let manifest = "[package]\nname = \"a\"\n\n[dev-dependencies]\nx = \"1\"\n\n[dependencies]\ny = \"1\"\nx.workspace = true\n\n\
                        [dependencies.z]\nversion = \"1\"\n\n[target.'cfg(unix)'.dependencies]\nw = \"1\"\n";
        let line = |key: &str, kind| {
            let dependency = Dependency {
                name: key.to_owned(),
                key: key.to_owned(),
                kind,
                optional: false,
                features: Vec::new(),
            };
            dependency_line(&tree(manifest), "a/Cargo.toml", &dependency)
        };
        assert_eq!(line("x", DependencyKind::Normal), 9);
        assert_eq!(line("x", DependencyKind::Development), 5);
        assert_eq!(line("z", DependencyKind::Normal), 12);
        assert_eq!(line("w", DependencyKind::Normal), 15);
        assert_eq!(line("unknown", DependencyKind::Normal), 1);
    }
}
