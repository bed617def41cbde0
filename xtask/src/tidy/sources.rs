//! Rules about the texts themselves: `header`, `mod-rs`, `lints`, `unfinished`, `private-path`, `copied-out`,
//! `repeatable`.

use super::Finding;
use super::tree::{Tree, extension, numbered};

/// The rule that a place breaks, what is wrong with it, and how to mend it.
type Objection = (&'static str, String, &'static str);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let path = file.path.as_str();
        let mut object = |line, (rule, problem, remedy): Objection| {
            findings.push(Finding::new(rule, path, line, problem, remedy));
        };
        if extension(path) == Some("rs") && !file.text.starts_with("//!") {
            let remedy = "say in its first line which stage it is and why it exists";
            object(1, ("header", "the file does not begin with `//!`".to_owned(), remedy));
        }
        if path.ends_with("/mod.rs") {
            let remedy = "call it after its directory, beside that directory";
            object(1, ("mod-rs", "a module's file is named after the module".to_owned(), remedy));
        }
        let is_example = path.starts_with("examples/");
        if path.ends_with("/Cargo.toml")
            && !is_example
            && !file.text.contains("[lints]\nworkspace = true\n")
        {
            let problem = "it does not take the workspace's lints".to_owned();
            object(1, ("lints", problem, "add `[lints]` with `workspace = true`"));
        }
        let mut next = file.text.lines().skip(1);
        for (line, text) in numbered(&file.text) {
            let next = next.next().unwrap_or_default();
            let objections = [
                unfinished(path, text),
                private_path(text),
                unrepeatable(path, text, next),
                inherited(path, text),
            ];
            objections.into_iter().flatten().for_each(|objection| object(line, objection));
        }
    }
    findings
}

/// In two parts each, so that this list does not find itself.
const MARKS: [&str; 5] = [
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const SKIPPED: &str = concat!("#[ign", "ore");

/// Rule `unfinished`: what is in the tree is finished, and every test runs.
fn unfinished(path: &str, text: &str) -> Option<Objection> {
    // A document may speak of a mark: in backticks it is not one.
    let step = if extension(path) == Some("md") { 2 } else { 1 };
    let text = text.split('`').step_by(step).collect::<Vec<_>>().join("` `");
    let mut marks = MARKS.iter().filter(|mark| has_word(&text, mark));
    let mark = marks.next().or_else(|| text.contains(SKIPPED).then_some(&SKIPPED))?;
    Some(("unfinished", format!("{mark} marks unfinished work"), "finish it, or take it out"))
}

/// Rule `private-path`: nothing refers to a path outside the repository or in somebody's home.
fn private_path(text: &str) -> Option<Objection> {
    const OUTSIDE: &str = concat!("../sha", "red");
    const HOMES: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

    // After a letter it is the rest of another path or of an address.
    let begins = |home: &str| {
        text.match_indices(home)
            .any(|(start, _)| !text[..start].ends_with(|before: char| before.is_alphanumeric()))
    };
    let home = HOMES.into_iter().find(|home| begins(home));
    let path = home.or_else(|| text.contains(OUTSIDE).then_some(OUTSIDE))?;
    let remedy = "name it relative to the repository, or say what is meant in words";
    Some(("private-path", format!("{path}… exists on one machine only"), remedy))
}

/// Rule `copied-out`: the manifest of an example says everything itself. A reader copies it to where this workspace is not.
fn inherited(path: &str, text: &str) -> Option<Objection> {
    let is_inherited = path.starts_with("examples/")
        && path.ends_with("/Cargo.toml")
        && text.contains("workspace = true");
    let problem = || "an example inherits this from the workspace".to_owned();
    is_inherited.then(|| ("copied-out", problem(), "write the value here"))
}

/// Rule `repeatable`: a run of the application with the same seed takes the same course. What would break that cannot be
/// seen by the compiler: a hash map that is iterated in another order each time, a `select!` that polls its branches by
/// chance, a task that somebody else than the runner starts.
fn unrepeatable(path: &str, text: &str, next: &str) -> Option<Objection> {
    let within = path.strip_prefix("broker-app/src/")?;
    let has = |part: &str| text.contains(part) && !text.trim_start().starts_with("//");
    let (problem, remedy) = if has("HashMap") || has("HashSet") {
        ("the order of a hash map differs from run to run", "take a BTreeMap or BTreeSet")
    } else if has("select!") && !has("biased;") && next.trim() != "biased;" {
        ("`select!` polls its branches by chance", "begin it with a line `biased;`")
    } else if has("spawn(") && !within.starts_with("runner") {
        ("only the runner owns tasks", "hand the future to whoever awaits it")
    } else {
        return None;
    };
    Some(("repeatable", problem.to_owned(), remedy))
}

/// Whether the word stands there by itself.
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
    fn text_that_breaks_a_rule_is_found_on_its_line() {
        let (word, home) = (MARKS[2], concat!("/ho", "me/"));
        let marks = format!("//! {}\n", MARKS.join("\n//! "));
        let app = "broker-app/src/a.rs";
        let rows: [(&str, &str, &str, &[usize]); 19] = [
            ("header", "a.rs", "\n//! Too late.\n", &[1]),
            ("mod-rs", "a/mod.rs", "//! Why.\n", &[1]),
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
            ("repeatable", app, "//! Why.\nuse std::collections::HashMap;\n", &[2]),
            ("repeatable", app, "//! Why.\ntokio::select! {\n    x = y => z,\n}\n", &[2]),
            ("repeatable", app, "//! Why.\ntasks.spawn(work);\n", &[2]),
            ("", app, "//! No HashMap.\ntokio::select! {\n    biased;\n    x = y => z,\n}\n", &[]),
            ("", "broker-app/src/runner/b.rs", "//! Why.\ntasks.spawn(work);\n", &[]),
            ("", "broker-app/cli/src/a.rs", "//! Why.\nuse std::collections::HashMap;\n", &[]),
        ];
        for (rule, path, text, expected) in rows {
            let found = check(&Tree::of_files(&[(path, text)]));
            let found: Vec<_> = found.iter().map(|it| (it.rule, it.line)).collect();
            let expected: Vec<_> = expected.iter().map(|line| (rule, *line)).collect();
            assert_eq!(found, expected, "{path}: {text}");
        }
    }
}
