//! Rule `test-command`: what a stranger is told to run is what CI runs.

use super::Finding;
use super::tree::{SourceFile, Tree};

const README: &str = "README.md";
const CI: &str = ".ci/run";
/// How the README's test command begins.
const TEST: &str = "cargo xtask test";

/// The README has a command in a fenced block, and `.ci/run` runs it, and no other form of it.
pub(super) fn ci_runs_the_test_command(tree: &Tree) -> Vec<Finding> {
    let finding = |path: &str, line, problem: String, remedy: String| {
        vec![Finding { path: path.to_owned(), line, rule: "test-command", problem, remedy }]
    };
    let Some((readme_line, command)) = tree.file(README).and_then(readme_command) else {
        return finding(
            README,
            1,
            format!("no fenced block has a line that begins with `{TEST}`"),
            "show the test command in a block of its own".to_owned(),
        );
    };
    let runs: Vec<(usize, &str)> = tree.file(CI).into_iter().flat_map(ci_commands).collect();
    if runs.is_empty() {
        return finding(
            CI,
            1,
            format!("does not run `{command}`, the test command of {README}:{readme_line}"),
            format!("add the line `run {command}`"),
        );
    }
    let others = runs.iter().filter(|(_, run)| *run != command);
    others
        .flat_map(|(line, run)| {
            finding(
                CI,
                *line,
                format!("runs `{run}`, while {README}:{readme_line} says `{command}`"),
                "make them the same".to_owned(),
            )
        })
        .collect()
}

/// The first test command in a fenced block: its line, and what is to be typed.
fn readme_command(readme: &SourceFile) -> Option<(usize, &str)> {
    let mut is_fenced = false;
    readme.lines().find_map(|(number, line)| {
        let line = line.trim();
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            return None;
        }
        let command = line
            .strip_prefix("$ ")
            .unwrap_or(line)
            .split('#')
            .next()
            .unwrap_or_default()
            .trim_end();
        (is_fenced && is_test_command(command)).then_some((number, command))
    })
}

/// The test commands of the script, without the function that prints them and the arguments that it
/// passes on.
fn ci_commands(ci: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    ci.lines().filter_map(|(number, line)| {
        let line = line.trim();
        let command = line.strip_prefix("run ").unwrap_or(line);
        let command = command.strip_suffix(r#" "$@""#).unwrap_or(command);
        is_test_command(command).then_some((number, command))
    })
}

fn is_test_command(command: &str) -> bool {
    command.strip_prefix(TEST).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD_README: &str = "# Broker\n\n```sh\ncargo xtask test   # everything\n```\n";
    const GOOD_CI: &str = "set -e\nrun cargo xtask lint\nrun cargo xtask test \"$@\"\n";

    fn lines(readme: &str, ci: &str) -> Vec<String> {
        let tree = Tree::of_files(&[(README, readme), (CI, ci)]);
        ci_runs_the_test_command(&tree)
            .iter()
            .map(|finding| format!("{}:{}", finding.path, finding.line))
            .collect()
    }

    #[test]
    fn the_same_command_in_both_is_fine() {
        assert_eq!(lines(GOOD_README, GOOD_CI), Vec::<String>::new());
    }

    #[test]
    fn a_readme_without_the_command_is_found() {
        for readme in [
            "",
            "Run `cargo xtask test`.",
            "cargo xtask test\n",
            "```sh\ncargo xtask testing\n```\n",
        ] {
            assert_eq!(lines(readme, GOOD_CI), ["README.md:1"], "{readme}");
        }
    }

    #[test]
    fn a_script_that_runs_something_else_is_found() {
        for (ci, place) in [
            ("run cargo test\n", ".ci/run:1"),
            ("# cargo xtask test\n", ".ci/run:1"),
            ("set -e\nrun cargo xtask test --tier unit\n", ".ci/run:2"),
        ] {
            assert_eq!(lines(GOOD_README, ci), [place], "{ci}");
        }
    }
}
