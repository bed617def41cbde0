//! Rule `repeatable`: a run of the application with the same seed takes the same course.
//!
//! What would break that cannot be seen by the compiler: a hash map that is iterated in another order each
//! time, a `select!` that polls its branches by chance, a task that somebody else than the runner starts.

use super::Finding;
use super::tree::Tree;

const RULE: &str = "repeatable";

/// Where the rule holds.
const WHERE: &str = "broker-app/src/";

/// The part of it that owns tasks.
const RUNNER: &str = "broker-app/src/runner";

/// Every place that could take another course the next time.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files().filter(|file| file.path.starts_with(WHERE)) {
        let lines: Vec<_> = file.lines().collect();
        for (place, (line, text)) in lines.iter().enumerate() {
            let next = lines.get(place + 1).map_or("", |(_, text)| text);
            let may_spawn = file.path.starts_with(RUNNER);
            let Some((problem, remedy)) = objection(text, next, may_spawn) else { continue };
            findings.push(Finding {
                path: file.path.clone(),
                line: *line,
                rule: RULE,
                problem: problem.to_owned(),
                remedy: remedy.to_owned(),
            });
        }
    }
    findings
}

fn objection(text: &str, next: &str, may_spawn: bool) -> Option<(&'static str, &'static str)> {
    if text.trim_start().starts_with("//") {
        return None;
    }
    if text.contains("HashMap") || text.contains("HashSet") {
        return Some((
            "the order of a hash map differs from run to run",
            "take a BTreeMap or BTreeSet",
        ));
    }
    if text.contains("select!") && !text.contains("biased;") && next.trim() != "biased;" {
        return Some(("`select!` polls its branches by chance", "begin it with a line `biased;`"));
    }
    if text.contains("spawn(") && !may_spawn {
        return Some(("only the runner owns tasks", "hand the future to whoever awaits it"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_another_course_the_next_time_is_found() {
        let biased = "tokio::select! {\n    biased;\n    x = y => z,\n}\n";
        let rows: &[(&str, &str, &[usize])] = &[
            ("broker-app/src/a.rs", "//! Why.\nuse std::collections::HashMap;\n", &[2]),
            ("broker-app/src/a.rs", "let set: HashSet<u8>;\n", &[1]),
            ("broker-app/src/a.rs", "// A HashMap would not do.\n", &[]),
            ("broker-app/src/a.rs", "tokio::select! {\n    x = y => z,\n}\n", &[1]),
            ("broker-app/src/a.rs", biased, &[]),
            ("broker-app/src/a.rs", "tasks.spawn(work);\n", &[1]),
            ("broker-app/src/runner/b.rs", "tasks.spawn(work);\n", &[]),
            ("broker-app/src/runner/b.rs", "HashMap::new();\n", &[1]),
            ("broker-app/cli/src/a.rs", "use std::collections::HashMap;\n", &[]),
        ];
        for (path, text, lines) in rows {
            let found: Vec<_> = check(&Tree::of_files(&[(path, text)]))
                .iter()
                .map(|finding| finding.line)
                .collect();
            assert_eq!(found, *lines, "{path}: {text}");
        }
    }
}
