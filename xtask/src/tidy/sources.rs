//! Rules about the texts themselves: `header`, `mod-rs`, `lints`, `unfinished`, `private-path`, `repeatable`.

use super::Finding;
use super::tree::{Tree, extension};

/// What is wrong with a place, and how to mend it.
type Objection = (String, &'static str);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let path = file.path.as_str();
        let is_rust = extension(path) == Some("rs");
        if is_rust && !file.text.starts_with("//!") {
            let remedy = "say in its first line which stage it is and why it exists";
            let problem = "the file does not begin with `//!`";
            findings.push(Finding::new("header", path, 1, problem, remedy));
        }
        if path.ends_with("/mod.rs") {
            let remedy = "call it after its directory, beside that directory";
            let problem = "a module's file is named after the module";
            findings.push(Finding::new("mod-rs", path, 1, problem, remedy));
        }
        let is_member = path.ends_with("/Cargo.toml");
        if is_member && !file.text.contains("[lints]\nworkspace = true\n") {
            let problem = "it does not take the workspace's lints";
            let remedy = "add `[lints]` with `workspace = true`";
            findings.push(Finding::new("lints", path, 1, problem, remedy));
        }
        let mut next = file.text.lines().skip(1);
        for (line, text) in file.lines() {
            let mut found = |rule, objection: Option<Objection>| {
                let finding = |(problem, remedy)| Finding::new(rule, path, line, problem, remedy);
                findings.extend(objection.map(finding));
            };
            found("unfinished", unfinished(path, text));
            found("private-path", private_path(text));
            found("repeatable", unrepeatable(path, text, next.next().unwrap_or_default()));
        }
    }
    findings
}

/// In two parts each, so that this list does not find itself.
const MACROS: [&str; 3] =
    [concat!("to", "do!"), concat!("unimpl", "emented!"), concat!("db", "g!")];
const WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const SKIPPED: &str = concat!("#[ign", "ore");

/// Rule `unfinished`: what is in the tree is finished, and every test runs.
fn unfinished(path: &str, text: &str) -> Option<Objection> {
    // A document may speak of a mark: in backticks it is not one.
    let step = if extension(path) == Some("md") { 2 } else { 1 };
    let text = text.split('`').step_by(step).collect::<Vec<_>>().join("` `");
    let mut marks = MACROS.iter().chain(&WORDS).filter(|mark| has_word(&text, mark));
    let mark = marks.next().or_else(|| text.contains(SKIPPED).then_some(&SKIPPED))?;
    Some((format!("{mark} marks unfinished work"), "finish it, or take it out"))
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
    Some((format!("{path}… exists on one machine only"), remedy))
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
    Some((problem.to_owned(), remedy))
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
    use super::super::tests::check_table;
    use super::*;

    #[test]
    fn files_without_header_lints_or_a_name_of_their_own_are_found() {
        check_table(
            "header",
            &[
                ("a.rs", "//! Why.\n", &[]),
                ("a.rs", "// Why.\n", &[1]),
                ("a.rs", "\n//! Too late.\n", &[1]),
                ("a.rs", "", &[1]),
                ("a.md", "# No code", &[]),
            ],
        );
        check_table("mod-rs", &[("a/mod.rs", "", &[1]), ("a/modes.rs", "", &[])]);
        check_table(
            "lints",
            &[
                ("a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n", &[]),
                ("a/Cargo.toml", "[package]\nname = \"a\"\n", &[1]),
                ("a/Cargo.toml", "[lints.rust]\nunsafe_code = \"deny\"\n", &[1]),
                ("a/Cargo.toml", "[lints]\nworkspace = false\n", &[1]),
                ("Cargo.toml", "[workspace]\n", &[]),
            ],
        );
    }

    #[test]
    fn mark_of_unfinished_work_is_found_where_it_is_a_word_of_its_own() {
        for mark in MACROS.iter().chain(&WORDS).chain([&SKIPPED]) {
            let text = format!("//! Fine.\nfn f() {{ {mark}(); }}\n");
            check_table("unfinished", &[("a.rs", &text, &[2])]);
        }
        let word = WORDS[0];
        check_table(
            "unfinished",
            &[
                ("a.rs", &format!("// {word}: later\n"), &[1]),
                ("a.rs", &format!("let {word}S = 1; let MY_{word} = 2;\n"), &[]),
                ("a.rs", &format!("my_{}()", MACROS[0]), &[]),
                ("a.sh", &format!("mktemp {}{}", WORDS[2], WORDS[2]), &[]),
                ("a.rs", &format!("{SKIPPED} = \"slow\"]"), &[1]),
                ("a.md", &format!("No `{word}` is left.\n\n{word}: write this"), &[3]),
            ],
        );
    }

    #[test]
    fn path_of_one_machine_is_found() {
        let home = concat!("/ho", "me/");
        check_table(
            "private-path",
            &[
                ("a.md", &format!("See {home}me/notes."), &[1]),
                ("a.toml", &format!("path = \"{home}me\""), &[1]),
                ("a.rs", concat!("//! Fine.\n// See ../sha", "red/notes."), &[2]),
                ("a.md", &format!("https://example.com{home}"), &[]),
                ("a.md", "Root's home is closed to others.", &[]),
            ],
        );
    }

    #[test]
    fn code_that_takes_another_course_the_next_time_is_found() {
        check_table(
            "repeatable",
            &[
                ("broker-app/src/a.rs", "//! Why.\nuse std::collections::HashMap;\n", &[2]),
                ("broker-app/src/a.rs", "let set: HashSet<u8>;\n", &[1]),
                ("broker-app/src/a.rs", "// A HashMap would not do.\n", &[]),
                ("broker-app/src/a.rs", "tokio::select! {\n    x = y => z,\n}\n", &[1]),
                ("broker-app/src/a.rs", "tokio::select! {\n    biased;\n    x = y => z,\n}\n", &[]),
                ("broker-app/src/a.rs", "tasks.spawn(work);\n", &[1]),
                ("broker-app/src/runner/b.rs", "tasks.spawn(work);\n", &[]),
                ("broker-app/src/runner/b.rs", "HashMap::new();\n", &[1]),
                ("broker-app/cli/src/a.rs", "use std::collections::HashMap;\n", &[]),
            ],
        );
    }
}
