//! Rules about pages that follow from the code: `generated`, `test-command`, `runbook`.

use broker_app::explain::Verdict;

use super::Finding;
use super::tree::{SourceFile, Tree};
use crate::docs::Generated;

/// Rule `generated`: a committed file that follows from the code is what the code would write now. A finding is at the
/// first line that differs.
pub(super) fn are_current(tree: &Tree, generated: &[Generated]) -> Vec<Finding> {
    let findings = generated.iter().filter_map(|Generated { path, content }| {
        let text = tree.file(path).map(|file| file.text.as_str());
        let problem = match text {
            None => "the file is generated, and missing",
            Some(text) if text == content => return None,
            Some(_) => "differs from what the code generates",
        };
        let same = text.unwrap_or_default().lines().zip(content.lines());
        let line = same.take_while(|(one, other)| one == other).count() + 1;
        Some(Finding::new("generated", path, line, problem, "run `cargo xtask docs`"))
    });
    findings.collect()
}

const README: &str = "README.md";
const CI: &str = ".ci/run";
/// How the README's test command begins.
const TEST: &str = "cargo xtask test";

/// Rule `test-command`: what a stranger is told to run is what CI runs. The README has the command in a fenced block,
/// and `.ci/run` runs it, and no other form of it.
pub(super) fn ci_runs_the_test_command(tree: &Tree) -> Vec<Finding> {
    let finding = |path, line, problem, remedy: &str| {
        Finding::new("test-command", path, line, problem, remedy)
    };
    let Some((told, command)) = tree.file(README).and_then(readme_command) else {
        let problem = format!("no fenced block has a line that begins with `{TEST}`");
        return vec![finding(README, 1, problem, "show the test command in a block of its own")];
    };
    let runs = tree.file(CI).into_iter().flat_map(SourceFile::lines).filter_map(|(line, text)| {
        // Without the function that prints it, and the arguments that it passes on.
        let run = text.trim().trim_start_matches("run ").trim_end_matches(r#" "$@""#);
        is_test_command(run).then_some((line, run))
    });
    let runs: Vec<_> = runs.collect();
    if runs.is_empty() {
        let problem = format!("does not run `{command}`, the test command of {README}:{told}");
        return vec![finding(CI, 1, problem, "run it")];
    }
    let others = runs.into_iter().filter(|(_, run)| *run != command).map(|(line, run)| {
        let problem = format!("runs `{run}`, while {README}:{told} says `{command}`");
        finding(CI, line, problem, "make them the same")
    });
    others.collect()
}

/// The first test command in a fenced block: its line, and what is to be typed.
fn readme_command(readme: &SourceFile) -> Option<(usize, &str)> {
    let mut is_fenced = false;
    readme.lines().find_map(|(number, line)| {
        is_fenced ^= line.trim().starts_with("```");
        let command = line.trim().trim_start_matches("$ ").split('#').next()?.trim_end();
        (is_fenced && is_test_command(command)).then_some((number, command))
    })
}

fn is_test_command(command: &str) -> bool {
    command.strip_prefix(TEST).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

const RUNBOOK: &str = "docs/runbook.md";
/// What each entry has to say.
const PARTS: [&str; 3] = ["- **Symptom.** ", "- **Diagnosis.** ", "- **Remedy.** "];

/// Rule `runbook`: it has one whole entry for each verdict, and none for anything else.
pub(super) fn runbook_has_every_verdict(tree: &Tree) -> Vec<Finding> {
    let verdicts: Vec<_> = Verdict::ALL.iter().map(|verdict| verdict.as_str()).collect();
    let page = tree.file(RUNBOOK).map_or("", |file| file.text.as_str());
    let finding = |line, problem: String| {
        let remedy = "say symptom, diagnosis and remedy of each verdict, once";
        Finding::new("runbook", RUNBOOK, line, problem, remedy)
    };
    let (mut findings, mut seen) = (Vec::new(), Vec::new());
    let lines: Vec<_> = page.lines().collect();
    for (place, line) in lines.iter().enumerate() {
        let Some(code) = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`')) else {
            continue;
        };
        if !verdicts.contains(&code) {
            findings.push(finding(place + 1, format!("{code} is no verdict of explain")));
        }
        if seen.contains(&code) {
            findings.push(finding(place + 1, format!("{code} has two entries")));
        }
        seen.push(code);
        let entry = lines[place + 1..].iter().take_while(|line| !line.starts_with('#'));
        for part in PARTS.iter().filter(|part| !entry.clone().any(|line| line.starts_with(**part)))
        {
            let part = part.trim();
            findings.push(finding(place + 1, format!("the entry of {code} has no {part}")));
        }
    }
    let missing = verdicts.iter().filter(|code| !seen.contains(code));
    findings.extend(missing.map(|code| finding(1, format!("the verdict {code} has no entry"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, problems};
    use super::*;

    #[test]
    fn generated_file_that_is_stale_or_missing_is_found_at_its_first_difference() {
        let generated = [Generated { path: "docs/a.md", content: "one\ntwo\n".to_owned() }];
        let table: [(&[_], &[usize]); 5] = [
            (&[("docs/a.md", "one\ntwo\n")], &[]),
            (&[("docs/a.md", "one\nTWO\n")], &[2]),
            (&[("docs/a.md", "one\n")], &[2]),
            (&[("docs/a.md", "one\ntwo\nthree\n")], &[3]),
            (&[], &[1]),
        ];
        for (files, expected) in table {
            let findings = are_current(&Tree::of_files(files), &generated);
            assert_eq!(
                findings.iter().map(|it| it.line).collect::<Vec<_>>(),
                expected,
                "{files:?}"
            );
        }
    }

    #[test]
    fn readme_and_script_have_the_same_test_command() {
        let readme = "# Broker\n\n```sh\ncargo xtask test   # everything\n```\n";
        let ci = "set -e\nrun cargo xtask lint\nrun cargo xtask test \"$@\"\n";
        let table: [(&str, &str, &[usize]); 7] = [
            (readme, ci, &[]),
            ("Run `cargo xtask test`.", ci, &[1]),
            ("cargo xtask test\n", ci, &[1]),
            ("```sh\ncargo xtask testing\n```\n", ci, &[1]),
            (readme, "run cargo test\n", &[1]),
            (readme, "# cargo xtask test\n", &[1]),
            (readme, "set -e\nrun cargo xtask test --tier unit\n", &[2]),
        ];
        for (readme, ci, expected) in table {
            let files = [(README, readme), (CI, ci)];
            assert_eq!(lines("test-command", &files), expected, "{readme} {ci}");
        }
    }

    #[test]
    fn runbook_has_one_whole_entry_for_each_verdict() {
        let entry = |code: &str| {
            format!("### `{code}`\n\n- **Symptom.** a\n- **Diagnosis.** b\n- **Remedy.** c\n")
        };
        let all: String = Verdict::ALL.iter().map(|verdict| entry(verdict.as_str())).collect();
        let first = Verdict::ALL[0].as_str();
        for (page, expected) in [
            (all.clone(), vec![]),
            (all.clone() + &entry("other"), vec!["other is no verdict of explain".to_owned()]),
            (all.clone() + &entry(first), vec![format!("{first} has two entries")]),
            (all.replace(&entry(first), ""), vec![format!("the verdict {first} has no entry")]),
            (
                all.replacen("- **Diagnosis.** b\n", "", 1),
                vec![format!("the entry of {first} has no - **Diagnosis.**")],
            ),
        ] {
            assert_eq!(problems("runbook", &[(RUNBOOK, &page)]), expected);
        }
    }
}
