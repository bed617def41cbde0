//! A place to build a mutation patch and run the tests that must detect it.
//!
//! A build failure, a crash and a timeout do not count as a catch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot_run;
use cargo_metadata::TargetKind;

use super::scratch::Scratch;
use super::variant::{Catch, Variant};
use crate::test::Outcome;
use crate::workspace::{artifacts, cargo_in};

/// In seconds; longer than any of these tests takes on a slow machine.
const MOST_SECONDS: &str = "900";

/// The result of a test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// It crashed, timed out, or does not exist.
    Neither(String),
}

pub(super) struct Lab<'a> {
    pub(super) scratch: Scratch,
    pub(super) servers: &'a [(String, String)],
}

impl Lab<'_> {
    /// Applies a patch, runs its tests, and restores the files.
    pub(super) fn try_out(&self, variant: &Variant) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for edit in &variant.edits {
            match edit.apply(&self.scratch.original(&edit.path)?) {
                Ok(text) => self.scratch.replace(&edit.path, &text)?,
                Err(problem) => problems.push(format!("{}: {problem}", variant.name)),
            }
        }
        if problems.is_empty() {
            problems = self.run_tests(variant)?;
        }
        for edit in &variant.edits {
            self.scratch.restore(&edit.path)?;
        }
        Ok(problems)
    }

    fn run_tests(&self, variant: &Variant) -> Result<Vec<String>> {
        let suites = variant.catches.iter().map(|catch| catch.suite.as_str());
        let Some(built) = self.build(suites)? else {
            return Ok(vec![format!("{} does not build", variant.name)]);
        };
        let mut problems = Vec::new();
        for catch in &variant.catches {
            let (verdict, _) = self.run_test(&built, catch)?;
            if verdict != Verdict::Failed {
                problems.push(format!("{} and {catch}: {verdict:?}", variant.name));
            }
        }
        Ok(problems)
    }

    /// The test binaries of these suites; `None` if something does not compile.
    pub(super) fn build<'s>(&self, suites: impl Iterator<Item = &'s str>) -> Result<Option<Built>> {
        // Crate names begin with the product's name, test targets do not.
        let suites: BTreeSet<_> = suites.collect();
        let (crates, targets): (Vec<_>, Vec<_>) =
            suites.into_iter().partition(|suite| suite.starts_with("broker-"));
        // One call for all targets, and always the whole workspace, so that the resolved features stay the same.
        let tests = targets.iter().flat_map(|target| ["--test", *target]);
        let mut calls = vec![["--workspace"].into_iter().chain(tests).collect::<Vec<_>>()];
        calls.retain(|call| call.len() > 1);
        calls.extend(crates.iter().map(|name| vec!["--package", *name, "--lib"]));
        let mut built = Built::new();
        for selection in calls {
            let arguments = ["test", "--all-features", "--no-run", "--quiet"];
            let mut command = cargo_in(&self.scratch.tree, &arguments);
            command.args(&selection).env("CARGO_TARGET_DIR", &self.scratch.target);
            // Debug information is not needed here.
            command.env("CARGO_PROFILE_DEV_DEBUG", "false");
            let (artifacts, status) = artifacts(&mut command)?;
            if !status.success() {
                return Ok(None);
            }
            for artifact in artifacts.into_iter().filter(|artifact| artifact.profile.test) {
                let Some(program) = artifact.executable else { continue };
                let directory = artifact.manifest_path.parent().map(Into::into).unwrap_or_default();
                let name = artifact.target.name.clone();
                // A library's unit tests are named after its package.
                let is_test = artifact.target.is_kind(TargetKind::Test);
                let suite = if is_test { name } else { name.replace('_', "-") };
                built.insert(suite, (program.into(), directory));
            }
        }
        Ok(Some(built))
    }

    /// Runs a test; returns its result and output.
    pub(super) fn run_test(&self, built: &Built, catch: &Catch) -> Result<(Verdict, String)> {
        let Some((program, directory)) = built.get(&catch.suite) else {
            return Ok((Verdict::Neither("the suite does not exist".to_owned()), String::new()));
        };
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", MOST_SECONDS]).arg(program).args(["--exact", &catch.test]);
        command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
        judge(command.envs(self.servers.iter().cloned()), catch.saying.as_deref())
    }
}

/// The binary of each suite, and the directory of its package.
pub(super) type Built = BTreeMap<String, (PathBuf, PathBuf)>;

/// Runs one test. A failure without the expected message does not count.
fn judge(command: &mut Command, saying: Option<&str>) -> Result<(Verdict, String)> {
    let output = command.stdin(Stdio::null()).output().with_context(cannot_run(command))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome = Outcome::of(&text, output.status);
    let silent = saying.filter(|saying| !text.contains(saying));
    let verdict = match (outcome, silent) {
        (Outcome { passed: 1, failed: 0, exited_well: true, .. }, _) => Verdict::Passed,
        (Outcome { passed: 0, failed: 1, exited_well: false, .. }, None) => Verdict::Failed,
        (Outcome { failed: 1, .. }, Some(saying)) => {
            Verdict::Neither(format!("it failed without the message {saying:?}"))
        }
        (other, _) => Verdict::Neither(format!("{other:?}")),
    };
    Ok((verdict, text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_and_missing_test_are_not_a_catch() {
        let judged = |script: &str, saying| {
            let mut shell = Command::new("timeout");
            judge(shell.args(["--signal=KILL", "1", "sh", "-c", script]), saying).unwrap().0
        };
        let failed = "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        let with_words = format!("echo 'S5: it went'; {failed}");
        let passed = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        assert_eq!(judged(failed, None), Verdict::Failed);
        assert_eq!(judged(&with_words, Some("S5:")), Verdict::Failed);
        assert_eq!(judged(passed, None), Verdict::Passed);
        assert!(matches!(judged(failed, Some("S5:")), Verdict::Neither(_)));
        let nothing = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
        for neither in [nothing, "kill -9 $$", "exit 101", "sleep 100"] {
            assert!(matches!(judged(neither, None), Verdict::Neither(_)), "{neither}");
        }
    }
}
