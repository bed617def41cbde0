//! The steps of a script.
//!
//! A line `-- step: KIND` begins a step; what comes before the first such line is a step of the kind `transaction`. How
//! many steps of a migration are done stands in the record, so a run that was cut off goes on with the step that was
//! not finished. Only a transaction is undone by a failure. A step of another kind may run twice, and has to leave the
//! same result.

/// A part of a script that is finished before the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// All or nothing, together with its entry in the record. Its locks are held until its end, so it must not read or
    /// write the rows of a large table.
    Transaction(&'static str),
    /// One statement that is repeated, each time in a transaction of its own, until it changes no row.
    Batches(&'static str),
    /// Statements that each run outside of a transaction, as `CREATE INDEX CONCURRENTLY` has to.
    Statements(&'static str),
}

const MARKER: &str = "-- step: ";

/// The steps of a script, in their order; at least one.
pub(super) fn steps(script: &'static str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut kind = "transaction";
    let mut rest = script;
    loop {
        let end = marker(rest);
        let (text, next) = rest.split_at(end.unwrap_or(rest.len()));
        steps.push(match kind {
            "batches" => Step::Batches(text),
            "statements" => Step::Statements(text),
            _ => Step::Transaction(text),
        });
        let Some(next) = next.strip_prefix(MARKER) else { return steps };
        (kind, rest) = next.split_once('\n').unwrap_or((next, ""));
    }
}

/// Where the next line that begins a step stands.
fn marker(script: &str) -> Option<usize> {
    if script.starts_with(MARKER) {
        return Some(0);
    }
    script.find("\n-- step: ").map(|newline| newline + 1)
}

/// The statements of a step that runs them one by one.
pub(super) fn statements(text: &'static str) -> impl Iterator<Item = &'static str> {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.starts_with("--");
    text.split_inclusive(";\n").filter(move |it| it.lines().any(|line| is_code(&line)))
}

/// The index that a statement builds concurrently. A build that fails leaves an invalid index of that name behind.
pub(super) fn index_built_by(statement: &'static str) -> Option<&'static str> {
    statement.split_once("INDEX CONCURRENTLY ")?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::super::set::{MIGRATIONS, REFERENCE};
    use super::*;

    #[test]
    fn markers_split_a_script_into_steps() {
        let script =
            "a;\n-- step: batches\nb;\n-- step: statements\nc;\nd;\n-- step: transaction\ne;\n";
        let expected = [
            Step::Transaction("a;\n"),
            Step::Batches("b;\n"),
            Step::Statements("c;\nd;\n"),
            Step::Transaction("e;\n"),
        ];
        assert_eq!(steps(script), expected);
    }

    #[test]
    fn statements_are_told_apart_and_comments_are_none() {
        let text = "-- why\nCREATE UNIQUE INDEX CONCURRENTLY one\n    ON t (n);\nVALIDATE;\n-- the end\n\n";
        let found: Vec<_> = statements(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(index_built_by(found[0]), Some("one"));
        assert_eq!(index_built_by(found[1]), None);
    }

    #[test]
    fn every_marker_names_a_kind_and_only_statements_build_concurrently() {
        for script in MIGRATIONS.iter().chain(REFERENCE).flat_map(|it| [it.up, it.down]) {
            for line in script.lines().filter(|line| line.starts_with("-- step")) {
                let kind = line.strip_prefix(MARKER).unwrap();
                assert!(["transaction", "batches", "statements"].contains(&kind), "{line}");
            }
            for step in steps(script) {
                match step {
                    Step::Transaction(text) => assert!(!text.contains("CONCURRENTLY"), "{text}"),
                    Step::Batches(text) => assert_eq!(statements(text).count(), 1, "{text}"),
                    Step::Statements(text) => assert!(statements(text).count() > 0, "{text}"),
                }
            }
        }
    }
}
