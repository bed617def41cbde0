//! The steps of a script.
//!
//! A line `-- step: KIND` starts a step. The text before the first such line is a step of kind `transaction`. The
//! record counts the finished steps, so an interrupted run resumes at the first unfinished one. Only a transaction
//! rolls back on failure. A step of another kind may run twice and must be idempotent.

/// A part of a script that finishes before the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// One transaction that includes its record. It holds its locks until the end, so it must not read or write rows
    /// of a large table.
    Transaction(&'static str),
    /// One statement, repeated in separate transactions until it changes no row.
    Batches(&'static str),
    /// Statements that run outside a transaction, as `CREATE INDEX CONCURRENTLY` requires.
    Statements(&'static str),
}

const MARKER: &str = "-- step: ";

/// The steps of a script, in order; at least one.
pub(super) fn parse_steps(script: &'static str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut kind = "transaction";
    let mut rest = script;
    loop {
        let end = find_marker(rest);
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

fn find_marker(script: &str) -> Option<usize> {
    if script.starts_with(MARKER) {
        return Some(0);
    }
    script.find("\n-- step: ").map(|newline| newline + 1)
}

/// The statements of a `statements` step.
pub(super) fn split_statements(text: &'static str) -> impl Iterator<Item = &'static str> {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.starts_with("--");
    text.split_inclusive(";\n")
        .filter(move |statement| statement.lines().any(|line| is_code(&line)))
}

/// The index that a statement builds concurrently. A failed build leaves an invalid index of that name.
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
        assert_eq!(parse_steps(script), expected);
    }

    #[test]
    fn statements_are_split_without_comments() {
        let text = "-- why\nCREATE UNIQUE INDEX CONCURRENTLY one\n    ON t (n);\nVALIDATE;\n-- the end\n\n";
        let found: Vec<_> = split_statements(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(index_built_by(found[0]), Some("one"));
        assert_eq!(index_built_by(found[1]), None);
    }

    #[test]
    fn markers_are_valid_and_only_statements_build_concurrently() {
        for script in
            MIGRATIONS.iter().chain(REFERENCE).flat_map(|migration| [migration.up, migration.down])
        {
            for line in script.lines().filter(|line| line.starts_with("-- step")) {
                let kind = line.strip_prefix(MARKER).unwrap();
                assert!(["transaction", "batches", "statements"].contains(&kind), "{line}");
            }
            for step in parse_steps(script) {
                match step {
                    Step::Transaction(text) => assert!(!text.contains("CONCURRENTLY"), "{text}"),
                    Step::Batches(text) => assert_eq!(split_statements(text).count(), 1, "{text}"),
                    Step::Statements(text) => assert!(split_statements(text).count() > 0, "{text}"),
                }
            }
        }
    }
}
