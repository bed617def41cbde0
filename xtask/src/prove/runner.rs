//! Builds a mutation patch and runs the tests that must detect it.
//!
//! A build failure, a crash and a timeout do not count as a catch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot_run;
use cargo_metadata::TargetKind;

use super::source_copy::SourceCopy;
use super::variant::{Detector, MutationPatch};
use crate::test::Outcome;
use crate::workspace::{artifacts, cargo_in};

/// In seconds; the slowest of these tests takes less on a slow machine.
const TIMEOUT_SECONDS: &str = "900";

/// The result of a test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TestVerdict {
    Passed,
    Failed,
    /// The test crashed, timed out, or does not exist.
    Inconclusive(String),
}

pub(super) struct PatchRunner<'a> {
    pub(super) source_copy: SourceCopy,
    pub(super) servers: &'a [(String, String)],
}

impl PatchRunner<'_> {
    /// Applies a patch, runs its tests, and restores the files.
    pub(super) fn run_patch(&self, variant: &MutationPatch) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for edit in &variant.edits {
            match edit.apply(&self.source_copy.original(&edit.path)?) {
                Ok(text) => self.source_copy.replace(&edit.path, &text)?,
                Err(problem) => problems.push(format!("{}: {problem}", variant.name)),
            }
        }
        if problems.is_empty() {
            problems = self.run_tests(variant)?;
        }
        for edit in &variant.edits {
            self.source_copy.restore(&edit.path)?;
        }
        Ok(problems)
    }

    fn run_tests(&self, variant: &MutationPatch) -> Result<Vec<String>> {
        let suites = variant.detectors.iter().map(|detector| detector.suite.as_str());
        let Some(built) = self.build(suites)? else {
            return Ok(vec![format!("{} does not build", variant.name)]);
        };
        let mut problems = Vec::new();
        for detector in &variant.detectors {
            let (verdict, _) = self.run_test(&built, detector)?;
            if verdict != TestVerdict::Failed {
                problems.push(format!("{} and {detector}: {verdict:?}", variant.name));
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
            let mut command = cargo_in(&self.source_copy.tree, &arguments);
            command.args(&selection).env("CARGO_TARGET_DIR", &self.source_copy.target);
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
    pub(super) fn run_test(
        &self,
        built: &Built,
        detector: &Detector,
    ) -> Result<(TestVerdict, String)> {
        let Some((program, directory)) = built.get(&detector.suite) else {
            return Ok((
                TestVerdict::Inconclusive("the suite does not exist".to_owned()),
                String::new(),
            ));
        };
        let mut command = Command::new("timeout");
        command
            .args(["--signal=KILL", TIMEOUT_SECONDS])
            .arg(program)
            .args(["--exact", &detector.test]);
        command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
        run_and_classify(
            command.envs(self.servers.iter().cloned()),
            detector.expected_message.as_deref(),
        )
    }
}

/// The binary of each suite, and the directory of its package.
pub(super) type Built = BTreeMap<String, (PathBuf, PathBuf)>;

/// Runs one test. A failure without the expected message does not count.
fn run_and_classify(
    command: &mut Command,
    expected_message: Option<&str>,
) -> Result<(TestVerdict, String)> {
    let output = command.stdin(Stdio::null()).output().with_context(cannot_run(command))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome = Outcome::of(&text, output.status);
    let missing_message =
        expected_message.filter(|expected_message| !text.contains(expected_message));
    let verdict = match (outcome, missing_message) {
        (Outcome { passed: 1, failed: 0, exited_successfully: true, .. }, _) => TestVerdict::Passed,
        (Outcome { passed: 0, failed: 1, exited_successfully: false, .. }, None) => {
            TestVerdict::Failed
        }
        (Outcome { failed: 1, .. }, Some(expected_message)) => {
            TestVerdict::Inconclusive(format!("it failed without the message {expected_message:?}"))
        }
        (other, _) => TestVerdict::Inconclusive(format!("{other:?}")),
    };
    Ok((verdict, text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_and_missing_test_are_not_a_catch() {
        let classified = |script: &str, expected_message| {
            let mut shell = Command::new("timeout");
            run_and_classify(
                shell.args(["--signal=KILL", "1", "sh", "-c", script]),
                expected_message,
            )
            .unwrap()
            .0
        };
        let failed = "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        let with_message = format!("echo 'S5: out of order'; {failed}");
        let passed = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        assert_eq!(classified(failed, None), TestVerdict::Failed);
        assert_eq!(classified(&with_message, Some("S5:")), TestVerdict::Failed);
        assert_eq!(classified(passed, None), TestVerdict::Passed);
        assert!(matches!(classified(failed, Some("S5:")), TestVerdict::Inconclusive(_)));
        let nothing = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
        for script in [nothing, "kill -9 $$", "exit 101", "sleep 100"] {
            assert!(matches!(classified(script, None), TestVerdict::Inconclusive(_)), "{script}");
        }
    }
}
