//! Rules for pages that follow from the code: `generated`, `runbook`.

use broker_app::explain::Verdict;

use super::Finding;
use super::tree::{Tree, numbered};
use crate::docs::GeneratedFile;

/// Rule `generated`: a committed generated file equals the generator's output. A finding points to the first line that
/// differs.
pub(super) fn generated_files_are_current(
    tree: &Tree,
    generated: &[GeneratedFile],
) -> Vec<Finding> {
    let differing = generated.iter().filter(|it| tree.text(it.path) != Some(it.content.as_str()));
    let finding = |GeneratedFile { path, content }: &GeneratedFile| {
        let same = tree.text(path).unwrap_or_default().lines().zip(content.lines());
        let line = same.take_while(|(one, other)| one == other).count() + 1;
        let problem = "is missing or stale";
        Finding::new("generated", path, line, problem, "run `cargo xtask docs`")
    };
    differing.map(finding).collect()
}

const RUNBOOK: &str = "docs/runbook.md";
/// The parts of each entry.
const PARTS: [&str; 3] = ["- **Symptom.** ", "- **Diagnosis.** ", "- **Remedy.** "];

/// Rule `runbook`: the runbook has exactly one complete entry per verdict.
pub(super) fn runbook_has_every_verdict(tree: &Tree) -> Vec<Finding> {
    let mut missing: Vec<_> = Verdict::ALL.iter().map(|verdict| verdict.as_str()).collect();
    let page = tree.text(RUNBOOK).unwrap_or_default();
    let finding = |line, problem: String| {
        let remedy = "write symptom, diagnosis and remedy of each verdict, once";
        Finding::new("runbook", RUNBOOK, line, problem, remedy)
    };
    let mut findings = Vec::new();
    for (number, line) in numbered(page) {
        let Some(code) = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`')) else {
            continue;
        };
        if let Some(place) = missing.iter().position(|verdict| *verdict == code) {
            missing.remove(place);
        } else {
            findings.push(finding(number, format!("{code} has two entries or is not a verdict")));
        }
        let entry = page.lines().skip(number).take_while(|line| !line.starts_with('#'));
        for part in PARTS.iter().filter(|part| !entry.clone().any(|line| line.starts_with(**part)))
        {
            findings.push(finding(number, format!("the entry of {code} has no {part}")));
        }
    }
    findings.extend(missing.iter().map(|code| finding(1, format!("{code} has no entry"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_or_missing_generated_file_is_found() {
        let generated = [GeneratedFile { path: "docs/a.md", content: "one\ntwo\n".to_owned() }];
        let table: [(&[_], &[usize]); 4] = [
            (&[("docs/a.md", "one\ntwo\n")], &[]),
            (&[("docs/a.md", "one\nTWO\n")], &[2]),
            (&[("docs/a.md", "one\ntwo\nthree\n")], &[3]),
            (&[], &[1]),
        ];
        for (files, expected) in table {
            let found = generated_files_are_current(&Tree::of_files(files), &generated);
            assert!(found.iter().map(|it| it.line).eq(expected.iter().copied()), "{files:?}");
        }
    }

    #[test]
    fn runbook_has_one_complete_entry_per_verdict() {
        let entry = |code: &str| {
            format!("### `{code}`\n\n- **Symptom.** a\n- **Diagnosis.** b\n- **Remedy.** c\n")
        };
        let all: String = Verdict::ALL.iter().map(|verdict| entry(verdict.as_str())).collect();
        let first = Verdict::ALL[0].as_str();
        for (page, problems) in [
            (all.clone(), 0),
            (all.clone() + &entry("other"), 1),
            (all.clone() + &entry(first), 1),
            (all.replace(&entry(first), ""), 1),
            (all.replacen("- **Diagnosis.** b\n", "", 1), 1),
        ] {
            let tree = Tree::of_files(&[(RUNBOOK, &page)]);
            assert_eq!(runbook_has_every_verdict(&tree).len(), problems, "{page}");
        }
    }
}
