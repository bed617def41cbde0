//! One test binary, or all documentation examples: its listed tests and its outcome.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;
use cargo_metadata::Artifact;

use super::plan::{Plan, Tier};
use crate::workspace::{Workspace, artifacts, cargo_in};

/// The number of concurrent tests of a binary, unless set explicitly.
const THREADS: &str = "RUST_TEST_THREADS";

/// Crossplane tests mostly wait, for Crossplane or for each other. No test may wait for a thread: a test that waits for
/// exclusive use of Crossplane occupies one.
const WAITING_THREADS: usize = 32;

/// Server tests wait now and then: two per core keep the machine busy.
const SERVER_THREADS_PER_CORE: usize = 2;

/// Tests that run in one process.
pub(crate) struct Suite {
    pub(crate) tier: Tier,
    /// The name in the output.
    pub(super) title: String,
    /// The test binary; `None` for the documentation examples, which cargo compiles and runs in one step.
    binary: Option<PathBuf>,
    /// Of the package, or of the workspace.
    directory: PathBuf,
}

/// The suites of the plan's tiers, in the plan's order.
pub(super) fn build(
    workspace: &Workspace,
    plan: &Plan,
    arguments: &[String],
) -> Result<Vec<Suite>> {
    let built = compile(workspace, arguments)?;
    let mut suites: Vec<Suite> =
        built.iter().filter_map(|artifact| Suite::of(workspace, plan, artifact)).collect();
    suites.sort_by(|one, other| one.title.cmp(&other.title));
    // Last in their tier, because they are slow.
    suites.extend(plan.documentation().map(|tier| Suite {
        tier: tier.clone(),
        title: "documentation examples".to_owned(),
        binary: None,
        directory: workspace.root().to_owned(),
    }));
    suites.sort_by_key(|suite| plan.position(&suite.tier));
    Ok(suites)
}

/// One cargo call that compiles tests. Always the whole workspace with all features: another selection resolves other
/// features and recompiles the same crates.
pub(super) fn compile(workspace: &Workspace, arguments: &[String]) -> Result<Vec<Artifact>> {
    let mut command = workspace.cargo(&["test", "--workspace", "--all-features", "--no-run"]);
    let (built, status) = artifacts(command.args(arguments))?;
    ensure!(status.success(), "building the tests failed ({status})");
    Ok(built)
}

/// The summed results of the test harness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    /// Also false after a crash, which reports no failed test.
    pub(crate) exited_successfully: bool,
}

impl Suite {
    fn of(workspace: &Workspace, plan: &Plan, artifact: &Artifact) -> Option<Self> {
        let binary = artifact.executable.clone().filter(|_| artifact.profile.test)?.into();
        let package = workspace.packages().find(|package| package.id == artifact.package_id)?;
        let tier = plan.tier(&package.name, &artifact.target)?.clone();
        let kind = artifact.target.kind.first().map(ToString::to_string).unwrap_or_default();
        let title = format!("{} {kind} {}", package.name, artifact.target.name);
        let directory = package.manifest_path.parent()?.into();
        Some(Self { tier, title, binary: Some(binary), directory })
    }

    /// The number of tests that match the filters.
    pub(super) fn list(&self, filters: &[String]) -> Result<usize> {
        let mut command = self.command();
        command.args(filters).args(["--list", "--format", "terse"]).stderr(Stdio::piped());
        let output = command.output().with_context(cannot_run(&command))?;
        let (title, errors) = (&self.title, String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "listing {title} failed ({})\n{errors}", output.status);
        Ok(count_listed(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs the tests and copies their output to `screen`.
    pub(super) fn run(
        &self,
        filters: &[String],
        environment: &[(String, String)],
        screen: &mut impl Write,
    ) -> Result<Outcome> {
        let mut command = self.command();
        command.args(filters).envs(environment.iter().map(|(name, value)| (name, value)));
        if std::env::var_os(THREADS).is_none()
            && let Some(threads) = threads(&self.tier)
        {
            command.env(THREADS, threads.to_string());
        }
        Ok(run_tests(&mut command, screen)?.0)
    }

    pub(crate) fn command(&self) -> Command {
        let directory = &self.directory;
        let Some(binary) = &self.binary else {
            let arguments = ["test", "--workspace", "--all-features", "--doc", "--no-fail-fast"];
            let mut command = cargo_in(directory, &arguments);
            command.arg("--");
            return command;
        };
        let mut command = Command::new(binary);
        // As cargo does: tests find fixtures relative to the package's directory.
        command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
        command.env("CARGO_MANIFEST_PATH", directory.join("Cargo.toml"));
        command
    }
}

/// The number of concurrent tests of a tier; `None` for one per core.
fn threads(tier: &Tier) -> Option<usize> {
    if tier.needs_crossplane {
        return Some(WAITING_THREADS);
    }
    let cores = thread::available_parallelism().ok().filter(|_| tier.needs_servers)?;
    Some(cores.get() * SERVER_THREADS_PER_CORE)
}

/// Runs tests and copies each line to `screen`. Returns the outcome and the whole output.
pub(crate) fn run_tests(
    command: &mut Command,
    screen: &mut impl Write,
) -> Result<(Outcome, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(cannot_run(command))?;
    let mut text = Vec::new();
    if let Some(mut stdout) = child.stdout.take().map(BufReader::new) {
        let mut begin = 0;
        while stdout.read_until(b'\n', &mut text)? > 0 {
            screen.write_all(&text[begin..])?;
            begin = text.len();
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((Outcome::of(&text, child.wait()?), text))
}

impl Outcome {
    /// Parses the output of a finished harness: the counts in each line `test result: ok. 3 passed; 0 failed; 0
    /// ignored; …`.
    pub(crate) fn of(text: &str, status: ExitStatus) -> Self {
        let mut outcome = Self { exited_successfully: status.success(), ..Self::default() };
        let results = text.lines().filter_map(|line| line.strip_prefix("test result: "));
        let counts = results.filter_map(|rest| rest.split_once(". "));
        for count in counts.flat_map(|(_, counts)| counts.split("; ")) {
            match count.trim().split_once(' ') {
                Some((number, "passed")) => outcome.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => outcome.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => outcome.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
        outcome
    }

    /// Every reason to fail the run. Invariant: no test is skipped; every listed test is executed, whatever the exit
    /// code.
    pub(super) fn problems(self, listed: usize) -> Vec<String> {
        let Self { passed, failed, ignored, exited_successfully } = self;
        let executed = passed + failed;
        let problems = [
            (failed > 0).then(|| format!("{failed} failed")),
            (ignored > 0).then(|| format!("{ignored} ignored; no test may be ignored")),
            (executed + ignored != listed)
                .then(|| format!("{listed} listed but {executed} executed")),
        ];
        let mut problems: Vec<_> = problems.into_iter().flatten().collect();
        if !exited_successfully && problems.is_empty() {
            problems.push("the test binary exited with an error".to_owned());
        }
        problems
    }
}

/// Counts the tests in the output of `--list --format terse`.
fn count_listed(text: &str) -> usize {
    text.lines().filter(|line| line.ends_with(": test")).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn skipped_test_and_dead_harness_fail_the_run() {
        let list = "one::works: test\ntwo: test\nfast: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(count_listed(list), 2);
        let output = |passed, failed, ignored| {
            let rest = "0 measured; 7 filtered out; finished in 0.00s";
            format!(
                "echo 'test result: ok. {passed} passed; {failed} failed; {ignored} ignored; {rest}'"
            )
        };
        for (script, expected) in [
            (output(3, 0, 0), ""),
            (output(1, 0, 0) + ";" + &output(2, 0, 0), ""),
            (output(2, 1, 0) + "; exit 101", "1 failed"),
            (output(2, 0, 1), "1 ignored; no test may be ignored"),
            (output(2, 0, 0), "3 listed but 2 executed"),
            (output(4, 0, 0), "3 listed but 4 executed"),
            (output(3, 0, 0) + "; exit 101", "the test binary exited with an error"),
            ("kill -9 $$".to_owned(), "3 listed but 0 executed"),
        ] {
            // Not shown on the real screen: the outer run would parse it as its own result.
            let watched = run_tests(Command::new("sh").args(["-c", &script]), &mut io::sink());
            assert_eq!(watched.unwrap().0.problems(3).join("; "), expected, "{script}");
        }
    }
}
