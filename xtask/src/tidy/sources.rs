//! Rules for the texts themselves: `header`, `lints`, `unfinished`, `private-path`, `copied-out`,
//! `repeatable`.

use super::Finding;
use super::tree::{Tree, extension, numbered};

/// The violated rule, the problem and the fix.
type Violation = (&'static str, String, &'static str);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let path = file.path.as_str();
        let mut report = |line, (rule, problem, remedy): Violation| {
            findings.push(Finding::new(rule, path, line, problem, remedy));
        };
        if extension(path) == Some("rs") && !file.text.starts_with("//!") {
            let remedy = "add a first line with the stage and the purpose of the file";
            report(1, ("header", "the file does not begin with a `//!` header".to_owned(), remedy));
        }
        let is_example = path.starts_with("examples/");
        if path.ends_with("/Cargo.toml")
            && !is_example
            && !file.text.contains("[lints]\nworkspace = true\n")
        {
            let problem = "the manifest does not inherit the workspace's lints".to_owned();
            report(1, ("lints", problem, "add `[lints]` with `workspace = true`"));
        }
        let mut next = file.text.lines().skip(1);
        for (line, text) in numbered(&file.text) {
            let next = next.next().unwrap_or_default();
            let violations = [
                unfinished(path, text),
                private_path(text),
                unrepeatable(path, text, next),
                inherited(path, text),
            ];
            violations.into_iter().flatten().for_each(|violation| report(line, violation));
        }
    }
    findings
}

/// Split, so that the rule does not find this list.
const MARKS: [&str; 5] = [
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const SKIPPED: &str = concat!("#[ign", "ore");

/// Rule `unfinished`: the tree has no unfinished marks and no ignored tests.
fn unfinished(path: &str, text: &str) -> Option<Violation> {
    // A document may mention a mark in backticks.
    let step = if extension(path) == Some("md") { 2 } else { 1 };
    let text = text.split('`').step_by(step).collect::<Vec<_>>().join("` `");
    let mut marks = MARKS.iter().filter(|mark| has_word(&text, mark));
    let mark = marks.next().or_else(|| text.contains(SKIPPED).then_some(&SKIPPED))?;
    Some(("unfinished", format!("{mark} marks unfinished work"), "finish it or remove it"))
}

/// Rule `private-path`: no text refers to a path outside the repository or in a home directory.
fn private_path(text: &str) -> Option<Violation> {
    const OUTSIDE: &str = concat!("../sha", "red");
    const HOMES: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

    // After a letter, the text is part of another path or an address.
    let starts_path = |home: &str| {
        text.match_indices(home)
            .any(|(start, _)| !text[..start].ends_with(|before: char| before.is_alphanumeric()))
    };
    let home = HOMES.into_iter().find(|home| starts_path(home));
    let path = home.or_else(|| text.contains(OUTSIDE).then_some(OUTSIDE))?;
    let remedy = "use a path relative to the repository, or describe it";
    Some(("private-path", format!("{path}… exists on one machine only"), remedy))
}

/// Rule `copied-out`: the manifest of an example is self-contained, because readers copy it out of this workspace.
fn inherited(path: &str, text: &str) -> Option<Violation> {
    let is_inherited = path.starts_with("examples/")
        && path.ends_with("/Cargo.toml")
        && text.contains("workspace = true");
    let problem = || "an example inherits this from the workspace".to_owned();
    is_inherited.then(|| ("copied-out", problem(), "write the value in this manifest"))
}

/// Rule `repeatable`: runs of the application with the same seed are identical. The compiler does not prevent hash map
/// iteration, a `select!` with random branch order, or a task outside of the runner.
fn unrepeatable(path: &str, text: &str, next: &str) -> Option<Violation> {
    let within = path.strip_prefix("broker-app/src/")?;
    let has = |part: &str| text.contains(part) && !text.trim_start().starts_with("//");
    let (problem, remedy) = if has("HashMap") || has("HashSet") {
        ("the iteration order of a hash map differs between runs", "use a BTreeMap or BTreeSet")
    } else if has("select!") && !has("biased;") && next.trim() != "biased;" {
        ("`select!` polls its branches in random order", "make `biased;` its first line")
    } else if has("spawn(") && !within.starts_with("runner") {
        ("only the runner may spawn tasks", "await the future instead")
    } else {
        return None;
    };
    Some(("repeatable", problem.to_owned(), remedy))
}

/// Whether the text contains the word as a whole.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(start, _)| {
        let after = &text[start + word.len()..];
        !text[..start].ends_with(is_part) && (word.ends_with('!') || !after.starts_with(is_part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violation_is_found_on_its_line() {
        let (word, home) = (MARKS[2], concat!("/ho", "me/"));
        let marks = format!("//! {}\n", MARKS.join("\n//! "));
        let app = "broker-app/src/a.rs";
        let rows: [(&str, &str, &str, &[usize]); 18] = [
            ("header", "a.rs", "\n//! Too late.\n", &[1]),
            ("lints", "a/Cargo.toml", "[lints]\nworkspace = false\n", &[1]),
            ("", "a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n", &[]),
            ("copied-out", "examples/a/Cargo.toml", "[package]\na.workspace = true\n", &[2]),
            ("", "examples/a/Cargo.toml", "[package]\nname = \"a\"\n", &[]),
            ("unfinished", "a.rs", &marks, &[1, 2, 3, 4, 5]),
            ("unfinished", "a.rs", &format!("//! Fine.\n{SKIPPED} = \"slow\"]"), &[2]),
            ("unfinished", "a.md", &format!("No `{word}` is left.\n\n{word}: this"), &[3]),
            ("", "a.rs", &format!("//! let {word}S = 1; let MY_{word} = 2;\n"), &[]),
            ("private-path", "a.md", &format!("See {home}me/notes."), &[1]),
            ("private-path", "a.md", concat!("Fine.\nSee ../sha", "red/notes."), &[2]),
            ("", "a.md", &format!("https://example.com{home}"), &[]),
            ("repeatable", app, "//! Header.\nuse std::collections::HashMap;\n", &[2]),
            ("repeatable", app, "//! Header.\ntokio::select! {\n    x = y => z,\n}\n", &[2]),
            ("repeatable", app, "//! Header.\ntasks.spawn(work);\n", &[2]),
            ("", app, "//! No HashMap.\ntokio::select! {\n    biased;\n    x = y => z,\n}\n", &[]),
            ("", "broker-app/src/runner/b.rs", "//! Header.\ntasks.spawn(work);\n", &[]),
            ("", "broker-app/cli/src/a.rs", "//! Header.\nuse std::collections::HashMap;\n", &[]),
        ];
        for (rule, path, text, expected) in rows {
            let found = check(&Tree::of_files(&[(path, text)]));
            let found: Vec<_> = found.iter().map(|it| (it.rule, it.line)).collect();
            let expected: Vec<_> = expected.iter().map(|line| (rule, *line)).collect();
            assert_eq!(found, expected, "{path}: {text}");
        }
    }
}
