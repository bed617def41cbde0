//! A mutation patch: a unified diff below `tests/mutations` with header lines.
//!
//! ```text
//! Breaks: the mutation, as a sentence.
//! Caught by: SUITE TEST
//! Saying: a part of the test's failure message.
//! --- a/some/file.rs
//! …
//! ```
//!
//! `SUITE` is a test target of `broker-tests`, or a crate for its unit tests. Every test in a `Caught by` line must
//! fail. The optional `Saying` applies to the test above it: a failure counts only if the output contains this text. A
//! hunk is located by its text, not by its line numbers, and must match exactly once, so that a patch survives changes
//! elsewhere in its file.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use broker_test_servers::failure::cannot;

use crate::workspace::files;

pub(crate) const DIRECTORY: &str = "tests/mutations";

/// A parsed mutation patch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MutationPatch {
    /// Directory and name, without the extension.
    pub(crate) name: String,
    pub(crate) breaks: String,
    pub(crate) detectors: Vec<Detector>,
    pub(crate) edits: Vec<Edit>,
}

/// A test that must detect the mutation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Detector {
    /// A test target of `broker-tests`, or a crate.
    pub(crate) suite: String,
    /// The full name of the test.
    pub(crate) test: String,
    /// A required part of its failure message.
    pub(crate) expected_message: Option<String>,
}

/// The hunks of one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Relative to the root.
    pub(crate) path: String,
    hunks: Vec<Hunk>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Hunk {
    old: String,
    new: String,
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.suite, self.test)
    }
}

impl MutationPatch {
    /// Parses a patch. The error describes the problem.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut variant = Self {
            name: name.to_owned(),
            breaks: String::new(),
            detectors: Vec::new(),
            edits: Vec::new(),
        };
        for line in text.lines() {
            variant.parse_line(line)?;
        }
        let edits = &variant.edits;
        if edits.is_empty() || edits.iter().any(|edit| edit.hunks.is_empty()) {
            return Err("the patch changes nothing".to_owned());
        }
        if variant.breaks.is_empty() {
            return Err("the patch has no description; begin it with `Breaks: `".to_owned());
        }
        if variant.detectors.is_empty() {
            return Err("the patch names no test; add `Caught by: SUITE TEST`".to_owned());
        }
        Ok(variant)
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(file) = line.strip_prefix("--- a/") {
            self.edits.push(Edit { path: file.to_owned(), hunks: Vec::new() });
            return Ok(());
        }
        let Some(edit) = self.edits.last_mut() else { return self.parse_header(line) };
        match (line.split_at_checked(1).unwrap_or((" ", "")), edit.hunks.last_mut()) {
            (("+", rest), None) if rest.starts_with("++ b/") => {}
            (("@", _), _) => edit.hunks.push(Hunk::default()),
            ((mark @ (" " | "-" | "+"), rest), Some(hunk)) => {
                for (other, side) in [("+", &mut hunk.old), ("-", &mut hunk.new)] {
                    if mark != other {
                        side.push_str(rest);
                        side.push('\n');
                    }
                }
            }
            (_, None) => return Err(format!("{line:?} is before the first hunk")),
            _ => return Err(format!("{line:?} is not a diff line")),
        }
        Ok(())
    }

    fn parse_header(&mut self, line: &str) -> Result<(), String> {
        if let Some(breaks) = line.strip_prefix("Breaks: ") {
            breaks.clone_into(&mut self.breaks);
            return Ok(());
        }
        if let Some(expected_message) = line.strip_prefix("Saying: ") {
            let Some(detector) =
                self.detectors.last_mut().filter(|detector| detector.expected_message.is_none())
            else {
                return Err(format!("{line:?} does not follow a `Caught by` line"));
            };
            detector.expected_message = Some(expected_message.to_owned());
            return Ok(());
        }
        let detector = line.strip_prefix("Caught by: ").and_then(|test| test.split_once(' '));
        let Some((suite, test)) = detector else {
            return Err(format!(
                "{line:?} is neither `Breaks: …` nor `Caught by: SUITE TEST` nor `Saying: …`"
            ));
        };
        let (suite, test) = (suite.to_owned(), test.to_owned());
        self.detectors.push(Detector { suite, test, expected_message: None });
        Ok(())
    }
}

impl Edit {
    /// Applies the patch to the text of the file.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        let mut changed = text.to_owned();
        for Hunk { old, new } in &self.hunks {
            match changed.matches(old.as_str()).count() {
                1 => changed = changed.replacen(old.as_str(), new, 1),
                times => {
                    let first = old.lines().find(|line| !line.trim().is_empty());
                    let first = first.unwrap_or_default().trim();
                    return Err(format!(
                        "the hunk that begins with {first:?} matches {times} times, not once"
                    ));
                }
            }
        }
        if changed == text { Err("the patch changes nothing".to_owned()) } else { Ok(changed) }
    }
}

/// A patch, or the problem with it.
type Parsed = Result<MutationPatch, String>;

/// Every patch by name, each parsed or with its problem.
pub(crate) fn all(root: &Path) -> anyhow::Result<Vec<(String, Parsed)>> {
    let top = root.join(DIRECTORY);
    let read = |file: String| {
        let text = fs::read_to_string(top.join(&file)).with_context(cannot("read", &file))?;
        let name = file.trim_end_matches(".patch").to_owned();
        let variant = MutationPatch::parse(&name, &text);
        Ok((name, variant))
    };
    files(&top)?.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Breaks: Two is three.
Caught by: simulation counting::two_is_two
--- a/src/a.rs
+++ b/src/a.rs
@@ -7,3 +7,3 @@
 one
-two
+three

";

    #[test]
    fn patch_is_located_by_its_text() {
        // A `Saying` belongs to the test above it.
        let more = "Caught by: proof a::b\nSaying: S5: out of order\nCaught by: proof c::d\n--- a/";
        let variant = MutationPatch::parse("act/two", &PATCH.replacen("--- a/", more, 1)).unwrap();
        assert_eq!(variant.breaks, "Two is three.");
        assert_eq!(variant.detectors[0].to_string(), "simulation counting::two_is_two");
        let messages =
            variant.detectors.iter().map(|detector| detector.expected_message.as_deref());
        assert_eq!(messages.collect::<Vec<_>>(), [None, Some("S5: out of order"), None]);
        let [edit] = variant.edits.as_slice() else { panic!("one file") };
        assert_eq!(edit.path, "src/a.rs");
        assert_eq!(edit.apply("zero\none\ntwo\n\nfour\n").unwrap(), "zero\none\nthree\n\nfour\n");
        for (text, times) in [("one\nTWO\n\n", 0), ("one\ntwo\n\none\ntwo\n\n", 2)] {
            let problem = edit.apply(text).unwrap_err();
            assert_eq!(
                problem,
                format!("the hunk that begins with \"one\" matches {times} times, not once")
            );
        }
    }

    #[test]
    fn incomplete_patch_is_refused() {
        for (text, replacement, problem) in [
            ("Breaks: Two is three.\n", "", "the patch has no description"),
            ("Caught by: simulation counting::two_is_two\n", "", "the patch names no test"),
            ("Caught by", "Seen by", "is neither"),
            ("Breaks", "Saying: S5\nBreaks", "does not follow a `Caught by` line"),
            ("-two", "*two", "is not a diff line"),
            ("@@ -7,3 +7,3 @@\n one\n-two\n+three\n\n", "", "the patch changes nothing"),
        ] {
            let found =
                MutationPatch::parse("act/two", &PATCH.replace(text, replacement)).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }
}
