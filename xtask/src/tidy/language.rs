//! Language rules: `words` finds words that hide the actor of a sentence; `sentence` finds long sentences.

use super::Finding;
use super::tree::{Tree, extension, numbered};

/// Words that hide the actor or the time. Each is written in two parts, so that this list is not a finding.
const WORDS: [&str; 5] = [
    concat!("who", "ever"),
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("for ", "ever"),
    concat!("an", "ew"),
];

/// The maximum length of a sentence, in words.
const MAX_WORDS: usize = 35;

/// Checks every hand-written text.
pub(super) fn words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !matches!(
            extension(&file.path),
            Some("md" | "patch" | "rs" | "sh" | "sql" | "toml" | "yaml" | "yml")
        ) {
            continue;
        }
        for (line, text) in numbered(&file.text) {
            let text = text.to_lowercase().replace('_', " ");
            if let Some(word) = WORDS.iter().find(|word| has_word(&text, word)) {
                let problem = format!("`{word}` hides the actor or the time");
                findings.push(Finding::new(
                    "words",
                    &file.path,
                    line,
                    problem,
                    "name the actor or the time",
                ));
            }
        }
    }
    findings
}

/// Checks the pages in the root and in `docs`, without decisions.
pub(super) fn sentences(tree: &Tree) -> Vec<Finding> {
    let is_page = |path: &str| {
        let name = path.strip_prefix("docs/").unwrap_or(path);
        extension(name) == Some("md") && !name.contains('/')
    };
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_page(&file.path)) {
        for (line, words) in long_sentences(&file.text) {
            let problem = format!("a sentence has {words} words, at most {MAX_WORDS} are allowed");
            findings.push(Finding::new("sentence", &file.path, line, problem, "split it"));
        }
    }
    findings
}

/// The start line and the word count of every long sentence. Ignores code blocks, headings, tables and images. A list
/// item is a paragraph.
fn long_sentences(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut in_code) = (Vec::new(), false);
    let (mut start, mut words) = (0, 0);
    for (line, text) in numbered(text).chain([(0, "")]) {
        let text = text.trim();
        in_code ^= text.starts_with("```");
        let is_prose = !in_code && !text.is_empty() && !text.starts_with(['#', '|', '<', '!', '`']);
        let is_item = text.starts_with("- ")
            || text.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        let mut end_sentence = |words: &mut usize, start: usize| {
            if *words > MAX_WORDS {
                found.push((start, *words));
            }
            *words = 0;
        };
        if !is_prose || is_item {
            end_sentence(&mut words, start);
        }
        if !is_prose {
            continue;
        }
        for word in text.trim_start_matches(['-', ' ']).split_whitespace() {
            if words == 0 {
                start = line;
            }
            words += 1;
            let ending = word.trim_end_matches(['*', ')', '"', ']']);
            if ending.ends_with(['.', '!', '?']) {
                end_sentence(&mut words, start);
            }
        }
    }
    found
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let after = &text[start + word.len()..];
        // A quoted word is a name.
        !text[..start]
            .ends_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '`' | '"'))
            && !after.starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_actor_is_found_in_text_and_names() {
        let [hidden, .., time] = WORDS;
        let text = format!(
            "//! The worker renews.\nfn {hidden}_waits() {{}}\n// It begins {time}.\n// renewed\n// `{hidden}`\n"
        );
        let found = words(&Tree::of_files(&[("a.rs", &text), ("a.json", hidden)]));
        assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn long_sentence_is_found_and_tables_are_ignored() {
        let long = "word ".repeat(MAX_WORDS + 1);
        let page = format!(
            "# T\n\nShort.\n{long}end.\n\n| {long} |\n\n```text\n{long}\n```\n\n- {}end.\n",
            "word ".repeat(MAX_WORDS - 1)
        );
        let tree = Tree::of_files(&[("docs/a.md", &page), ("docs/decisions/a.md", &page)]);
        let found = sentences(&tree);
        assert_eq!(
            found.iter().map(|it| (&*it.path, it.line)).collect::<Vec<_>>(),
            [("docs/a.md", 4)]
        );
    }
}
