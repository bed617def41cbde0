//! One test binary, or all examples of the documentation: how many tests it promises, and what
//! became of them.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;
use broker_test_servers::progress::{step, to_stderr};
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
    tests: Tests,
}

/// Where the tests are.
enum Tests {
    /// In a binary that cargo built, for the package of this manifest.
    Binary { path: PathBuf, manifest: PathBuf },
    /// In the documentation of the workspace with this root; cargo compiles and runs them in one.
    Documentation { root: PathBuf },
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
        tests: Tests::Documentation { root: workspace.root().to_owned() },
    }));
    suites.sort_by_key(|suite| plan.position(&suite.tier));
    Ok(suites)
}

/// One cargo call that compiles tests. Always of the whole workspace with all features, whichever targets are wanted:
/// another selection would resolve other features and compile the same crates again.
pub(super) fn compile(workspace: &Workspace, arguments: &[String]) -> Result<Vec<Artifact>> {
    let mut command = workspace.cargo(&["test", "--workspace", "--all-features", "--no-run"]);
    let what = "building the tests";
    let (built, status) = step(&to_stderr, what, || artifacts(command.args(arguments)))?;
    ensure!(status.success(), "{what} failed ({status})");
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
        let path = artifact.executable.clone().filter(|_| artifact.profile.test)?.into();
        let package = workspace.packages().find(|package| package.id == artifact.package_id)?;
        let tier = plan.tier(&package.name, &artifact.target)?.clone();
        let kind = artifact.target.kind.first().map(ToString::to_string).unwrap_or_default();
        let title = format!("{} {kind} {}", package.name, artifact.target.name);
        let manifest = package.manifest_path.clone().into();
        Some(Self { tier, title, tests: Tests::Binary { path, manifest } })
    }

    /// How many tests there are under these filters.
    pub(super) fn list(&self, filters: &[String]) -> Result<usize> {
        let mut command = self.command();
        command.args(filters).args(["--list", "--format", "terse"]).stderr(Stdio::piped());
        let what = format!("listing {}", self.title);
        let output = step(&to_stderr, &what, || command.output());
        let output = output.with_context(cannot_run(&command))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{what} failed ({})\n{errors}", output.status);
        Ok(count_listed(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs them, and shows what they print on `screen`.
    pub(super) fn run(
        &self,
        filters: &[String],
        environment: &[(String, String)],
        screen: &mut (impl Write + Send),
    ) -> Result<(Outcome, Duration)> {
        let mut command = self.command();
        command.args(filters).envs(environment.iter().map(|(name, value)| (name, value)));
        if std::env::var_os(THREADS).is_none()
            && let Some(threads) = threads(&self.tier)
        {
            command.env(THREADS, threads.to_string());
        }
        let started = Instant::now();
        let what = format!("running {}", self.title);
        let outcome = step(&to_stderr, &what, || watch(&mut command, screen))
            .with_context(cannot_run(&command))?;
        Ok((outcome, started.elapsed()))
    }

    pub(crate) fn command(&self) -> Command {
        match &self.tests {
            Tests::Binary { path, manifest } => {
                let mut command = Command::new(path);
                // As cargo would: tests find their fixtures from the package's directory.
                if let Some(directory) = manifest.parent() {
                    command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
                }
                command.env("CARGO_MANIFEST_PATH", manifest);
                command
            }
            Tests::Documentation { root } => cargo_in(
                root,
                &["test", "--workspace", "--all-features", "--doc", "--no-fail-fast", "--"],
            ),
        }
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

/// Hands every line on to `screen` and reads the harness' summaries among them.
fn watch(command: &mut Command, mut screen: impl Write) -> io::Result<Outcome> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut outcome = Outcome::default();
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            screen.write_all(&line)?;
            outcome.add_summary(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    outcome.exited_well = child.wait().as_ref().is_ok_and(ExitStatus::success);
    Ok(outcome)
}

impl Outcome {
    /// Of a harness that has ended, from all that it said.
    pub(crate) fn of(text: &str, status: ExitStatus) -> Self {
        let mut outcome = Self { exited_well: status.success(), ..Self::default() };
        text.lines().for_each(|line| outcome.add_summary(line));
        outcome
    }

    /// Adds the counts of a line `test result: ok. 3 passed; 0 failed; 0 ignored; …`; other lines
    /// have none.
    fn add_summary(&mut self, line: &str) {
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// The tests among the lines of `--list --format terse`.
fn count_listed(text: &str) -> usize {
    text.lines().filter(|line| line.ends_with(": test")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_summaries_are_counted_and_nothing_else() {
        let list = "one::works: test\ntwo: test\nfast: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(count_listed(list), 2);
        let mut outcome = Outcome::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s",
        ] {
            outcome.add_summary(line);
        }
        assert_eq!(outcome, Outcome { passed: 4, failed: 2, ignored: 1, exited_well: false });
    }

    #[test]
    fn a_harness_that_dies_has_not_exited_well() {
        for (script, passed, exited_well) in [
            ("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'", 2, true),
            ("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit 101", 2, false),
            ("kill -9 $$", 0, false),
        ] {
            // Kept from the real screen, where the run around this test would read it as its own.
            let outcome = watch(Command::new("sh").args(["-c", script]), io::sink()).unwrap();
            assert_eq!((outcome.passed, outcome.exited_well), (passed, exited_well), "{script}");
        }
    }
}
