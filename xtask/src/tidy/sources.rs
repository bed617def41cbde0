//! Rules about the texts themselves: `header`, `mod-rs`, `unfinished`, `private-path`.

use super::Finding;
use super::tree::{SourceFile, Tree};

/// Rule `header`: a reader learns first why a file exists.
pub(super) fn begins_with_docs(tree: &Tree) -> Vec<Finding> {
    let without = tree.rust_files().filter(|file| !file.text.starts_with("//!"));
    let findings = without.map(|file| Finding {
        path: file.path.clone(),
        line: 1,
        rule: "header",
        problem: "the file does not begin with `//!`".to_owned(),
        remedy: "say in its first line which stage it is and why it exists".to_owned(),
    });
    findings.collect()
}

/// Rule `mod-rs`: one way to lay out a module.
pub(super) fn no_mod_rs(tree: &Tree) -> Vec<Finding> {
    let named =
        tree.rust_files().filter_map(|file| Some((file, file.path.strip_suffix("/mod.rs")?)));
    let findings = named.map(|(file, directory)| Finding {
        path: file.path.clone(),
        line: 1,
        rule: "mod-rs",
        problem: "a module's file is named after the module".to_owned(),
        remedy: format!("move it to {directory}.rs"),
    });
    findings.collect()
}

/// In two parts each, so that this list does not find itself.
const MACROS: [&str; 3] =
    [concat!("to", "do!"), concat!("unimpl", "emented!"), concat!("db", "g!")];
const WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const SKIPPED: &str = concat!("#[ign", "ore");

/// Rule `unfinished`: what is in the tree is finished, and every test runs.
pub(super) fn nothing_unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (line, text) in file.lines() {
            let text = if file.extension() == Some("md") {
                without_code_spans(text)
            } else {
                text.to_owned()
            };
            let mut found = |mark: &str, remedy: &str| {
                findings.push(Finding {
                    path: file.path.clone(),
                    line,
                    rule: "unfinished",
                    problem: format!("{mark} marks unfinished work"),
                    remedy: remedy.to_owned(),
                });
            };
            for mark in MACROS.iter().chain(&WORDS).filter(|mark| has_word(&text, mark)) {
                found(mark, "finish it, or take it out");
            }
            if text.contains(SKIPPED) {
                found(&format!("{SKIPPED}]"), "let the test run, or delete it");
            }
        }
    }
    findings
}

/// Rule `private-path`: nothing refers to one person's machine.
pub(super) fn no_private_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (line, text) in file.lines() {
            let Some(path) = private_path(text) else { continue };
            findings.push(Finding {
                path: file.path.clone(),
                line,
                rule: "private-path",
                problem: format!("{path}… exists on one machine only"),
                remedy: "name it relative to the repository, or say what is meant in words"
                    .to_owned(),
            });
        }
    }
    findings
}

/// A path outside the repository or in somebody's home.
fn private_path(text: &str) -> Option<&'static str> {
    const OUTSIDE: &str = concat!("../sha", "red");
    const HOMES: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

    if text.contains(OUTSIDE) {
        return Some(OUTSIDE);
    }
    // After a letter it is the rest of another path or of an address.
    HOMES.into_iter().find(|home| {
        text.match_indices(home)
            .any(|(start, _)| !text[..start].ends_with(|before: char| before.is_alphanumeric()))
    })
}

/// Whether the word stands there by itself.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(start, _)| {
        let after = &text[start + word.len()..];
        !text[..start].ends_with(is_part) && (word.ends_with('!') || !after.starts_with(is_part))
    })
}

/// A document may speak of a mark: in backticks it is not one.
fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("` `")
}

impl SourceFile {
    #[cfg(test)]
    fn of(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        Tree { files: vec![SourceFile::of(path, text)], ..Tree::default() }
    }

    /// The path, the text, and the lines on which it breaks the rule.
    fn check_table(rule: impl Fn(&Tree) -> Vec<Finding>, table: &[(&str, &str, &[usize])]) {
        for (path, text, lines) in table {
            let found: Vec<usize> =
                rule(&tree(path, text)).iter().map(|finding| finding.line).collect();
            assert_eq!(found, *lines, "{path}: {text}");
        }
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        check_table(
            begins_with_docs,
            &[
                ("a.rs", "//! Why.\n", &[]),
                ("a.rs", "// Why.\n", &[1]),
                ("a.rs", "\n//! Too late.\n", &[1]),
                ("a.rs", "", &[1]),
                ("a.md", "# No code", &[]),
            ],
        );
    }

    #[test]
    fn a_module_file_called_mod_is_found() {
        check_table(
            no_mod_rs,
            &[("a/mod.rs", "", &[1]), ("a/modes.rs", "", &[]), ("a/mod.md", "", &[])],
        );
        assert_eq!(no_mod_rs(&tree("a/b/mod.rs", ""))[0].remedy, "move it to a/b.rs");
    }

    #[test]
    fn every_mark_is_found() {
        for mark in MACROS.iter().chain(&WORDS).chain([&SKIPPED]) {
            let text = format!("//! Fine.\nfn f() {{ {mark}(); }}\n");
            assert_eq!(nothing_unfinished(&tree("a.rs", &text)).len(), 1, "{mark}");
        }
    }

    #[test]
    fn a_mark_is_a_word_of_its_own() {
        let word = WORDS[0];
        check_table(
            nothing_unfinished,
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
    fn a_path_of_somebodys_machine_is_found() {
        let home = concat!("/ho", "me/");
        check_table(
            no_private_paths,
            &[
                ("a.md", &format!("See {home}me/notes."), &[1]),
                ("a.toml", &format!("path = \"{home}me\""), &[1]),
                ("a.rs", concat!("//! Fine.\n// See ../sha", "red/notes."), &[2]),
                ("a.md", &format!("https://example.com{home}"), &[]),
                ("a.md", "Root's home is closed to others.", &[]),
            ],
        );
    }
}
