//! One test binary, or all examples of the documentation: how many tests it promises, and what
//! became of them.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;
use cargo_metadata::Artifact;

use super::plan::{Plan, Tier};
use crate::workspace::{Workspace, artifacts, cargo_in};

/// How many tests a binary runs at once, where it is not told.
const THREADS: &str = "RUST_TEST_THREADS";

/// Tests on Crossplane wait most of the time, for it or for each other, on every machine. So many that none waits for a
/// thread: one that wants Crossplane alone would hold one meanwhile that another could use.
const WAITING_THREADS: usize = 32;

/// Tests on servers wait for their answers now and then: so many for each core leave it hardly idle.
const SERVER_THREADS_PER_CORE: usize = 2;

/// Tests that run in one go.
pub(crate) struct Suite {
    pub(crate) tier: Tier,
    /// What a person calls it.
    pub(super) title: String,
    /// A binary that cargo built, or nothing for the documentation, whose tests cargo compiles and runs in one.
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
    // Last in their tier, for they are slow.
    suites.extend(plan.documentation().map(|tier| Suite {
        tier: tier.clone(),
        title: "examples in the documentation".to_owned(),
        binary: None,
        directory: workspace.root().to_owned(),
    }));
    suites.sort_by_key(|suite| plan.position(&suite.tier));
    Ok(suites)
}

/// One cargo call that compiles tests. Always of the whole workspace with all features, whichever targets are wanted:
/// another selection would resolve other features and compile the same crates again.
pub(super) fn compile(workspace: &Workspace, arguments: &[String]) -> Result<Vec<Artifact>> {
    let mut command = workspace.cargo(&["test", "--workspace", "--all-features", "--no-run"]);
    let (built, status) = artifacts(command.args(arguments))?;
    ensure!(status.success(), "building the tests failed ({status})");
    Ok(built)
}

/// What the test harness says at its end, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    /// Success means more than no failed test: a crash fails none.
    pub(crate) exited_well: bool,
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

    /// How many tests there are under these filters.
    pub(super) fn list(&self, filters: &[String]) -> Result<usize> {
        let mut command = self.command();
        command.args(filters).args(["--list", "--format", "terse"]).stderr(Stdio::piped());
        let output = command.output().with_context(cannot_run(&command))?;
        let (title, errors) = (&self.title, String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "listing {title} failed ({})\n{errors}", output.status);
        Ok(count_listed(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs them, and shows what they print on `screen`.
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
        Ok(watch(&mut command, screen)?.0)
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
        // As cargo would: tests find their fixtures from the package's directory.
        command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
        command.env("CARGO_MANIFEST_PATH", directory.join("Cargo.toml"));
        command
    }
}

/// How many tests of a tier run at once; `None` for as many as there are cores.
fn threads(tier: &Tier) -> Option<usize> {
    if tier.needs_crossplane {
        return Some(WAITING_THREADS);
    }
    let cores = thread::available_parallelism().ok().filter(|_| tier.needs_servers)?;
    Some(cores.get() * SERVER_THREADS_PER_CORE)
}

/// Runs tests, and hands every line on to `screen`. Answers what became of them, and all that they said.
pub(crate) fn watch(command: &mut Command, screen: &mut impl Write) -> Result<(Outcome, String)> {
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
    /// Of a harness that has ended, from all that it said: the counts of each line
    /// `test result: ok. 3 passed; 0 failed; 0 ignored; …`.
    pub(crate) fn of(text: &str, status: ExitStatus) -> Self {
        let mut outcome = Self { exited_well: status.success(), ..Self::default() };
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

    /// Everything that makes a run a failure. Invariant: nothing is skipped. What was listed is executed, whatever the exit
    /// code says.
    pub(super) fn complaints(self, listed: usize) -> Vec<String> {
        let Self { passed, failed, ignored, exited_well } = self;
        let executed = passed + failed;
        let complaints = [
            (failed > 0).then(|| format!("{failed} failed")),
            (ignored > 0).then(|| format!("{ignored} ignored, and no test may be")),
            (executed + ignored != listed)
                .then(|| format!("{listed} listed but {executed} executed")),
        ];
        let mut complaints: Vec<_> = complaints.into_iter().flatten().collect();
        if !exited_well && complaints.is_empty() {
            complaints.push("the test binary ended with an error".to_owned());
        }
        complaints
    }
}

/// The tests among the lines of `--list --format terse`.
fn count_listed(text: &str) -> usize {
    text.lines().filter(|line| line.ends_with(": test")).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn nothing_is_skipped_and_a_harness_that_dies_has_failed() {
        let list = "one::works: test\ntwo: test\nfast: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(count_listed(list), 2);
        let said = |passed, failed, ignored| {
            let rest = "0 measured; 7 filtered out; finished in 0.00s";
            format!(
                "echo 'test result: ok. {passed} passed; {failed} failed; {ignored} ignored; {rest}'"
            )
        };
        for (script, expected) in [
            (said(3, 0, 0), ""),
            (said(1, 0, 0) + ";" + &said(2, 0, 0), ""),
            (said(2, 1, 0) + "; exit 101", "1 failed"),
            (said(2, 0, 1), "1 ignored, and no test may be"),
            (said(2, 0, 0), "3 listed but 2 executed"),
            (said(4, 0, 0), "3 listed but 4 executed"),
            (said(3, 0, 0) + "; exit 101", "the test binary ended with an error"),
            ("kill -9 $$".to_owned(), "3 listed but 0 executed"),
        ] {
            // Kept from the real screen, where the run around this test would read it as its own.
            let watched = watch(Command::new("sh").args(["-c", &script]), &mut io::sink());
            assert_eq!(watched.unwrap().0.complaints(3).join("; "), expected, "{script}");
        }
    }
}
