//! `cargo xtask test`: set-up, then every test of the workspace.
//!
//! ```text
//! plan ─ which tiers there are, and which are wanted          (pure)
//! build ─ one cargo call compiles every test binary           (cargo)
//! suite ─ one binary or all examples: list, then run          (child processes)
//! report ─ what was promised against what was done            (pure)
//! ```

mod build;
mod plan;
mod report;
mod suite;

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use crate::cli::TestArguments;
use crate::error::TaskError;
use crate::workspace::Workspace;
use broker_test_servers::progress::{step, to_stderr};
use broker_test_servers::servers::{ServersError, SharedServers, start_shared};
use broker_test_servers::tools::{CrossplaneTools, Tools, provide_documents};

pub(crate) use build::Build;
use plan::Plan;
use report::{Report, Row};
pub(crate) use suite::Outcome;
use suite::{Suite, Tests};

/// Tells tests that they have all night.
pub(crate) const NIGHTLY: &str = "BROKER_NIGHTLY";

pub(crate) fn run(arguments: &TestArguments) -> Result<(), TaskError> {
    let TestArguments { filters, tier, nightly } = arguments;
    let workspace = Workspace::load()?;
    let plan = Plan::new(workspace.packages(), tier.as_deref())?;
    // Before the long build: a missing server is better learnt at once.
    let tools = plan.needs_servers().then(|| Tools::find_or_build(&to_stderr)).transpose()?;
    if tools.is_some() {
        provide_documents(&to_stderr)?;
    }
    if plan.needs_crossplane() {
        CrossplaneTools::find_or_build(&to_stderr)?;
    }

    let suites = build::suites(&workspace, &plan, Build::Everything)?;
    let mut listed = Vec::new();
    for suite in suites {
        let promised = suite.list(filters)?;
        listed.push((suite, promised));
    }
    if !filters.is_empty() && listed.iter().all(|(_, promised)| *promised == 0) {
        return Err(TaskError::NothingMatches { filters: filters.clone() });
    }
    listed.retain(|(_, promised)| *promised > 0);

    let (waiting, busy): (Vec<_>, Vec<_>) =
        listed.iter().partition(|(suite, _)| suite.tier.needs_crossplane);
    let busy = Lane::new(busy, tools.as_ref(), *nightly)?;
    let waiting = Lane::new(waiting, tools.as_ref(), *nightly)?;
    let report = perform(&busy, &waiting, filters)?;
    step(&to_stderr, "ending the servers", || drop((busy, waiting)));

    print!("\n{report}");
    let complaints = report.complaints();
    if complaints.is_empty() { Ok(()) } else { Err(TaskError::Tests { complaints }) }
}

/// A test binary, and the target that it was built from.
pub(crate) struct TestBinary {
    pub(crate) target: String,
    suite: Suite,
}

impl TestBinary {
    /// Runs it, as cargo would.
    pub(crate) fn command(&self) -> Command {
        self.suite.command()
    }
}

/// Every test binary of a build.
pub(crate) fn binaries(workspace: &Workspace, build: Build) -> Result<Vec<TestBinary>, TaskError> {
    let plan = Plan::new(workspace.packages(), None)?;
    let suites = build::suites(workspace, &plan, build)?.into_iter();
    let suites = suites.filter(|suite| matches!(suite.tests, Tests::Binary { .. }));
    Ok(suites.map(|suite| TestBinary { target: suite.tier.name.clone(), suite }).collect())
}

/// A program of the workspace, built as the tests are.
pub(crate) fn program(workspace: &Workspace, name: &str) -> Result<PathBuf, TaskError> {
    build::program(workspace, name)
}

fn start(tools: &Tools) -> Result<SharedServers, ServersError> {
    let what = "starting Postgres, etcd, kube-apiserver and kube-controller-manager";
    step(&to_stderr, what, || start_shared(tools, &|_| {}))
}

/// Suites that run one after the other, on servers of their own if they need any: what Crossplane installs for a whole
/// cluster is not for the tests of others to meet.
struct Lane<'a> {
    suites: Vec<&'a (Suite, usize)>,
    environment: Vec<(String, String)>,
    /// Until the lane is dropped.
    _servers: Option<SharedServers>,
}

impl<'a> Lane<'a> {
    fn new(
        suites: Vec<&'a (Suite, usize)>,
        tools: Option<&Tools>,
        nightly: bool,
    ) -> Result<Self, TaskError> {
        let servers_are_used = suites.iter().any(|(suite, _)| suite.tier.needs_servers);
        let servers = tools.filter(|_| servers_are_used).map(start).transpose()?;
        let mut environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
        if nightly {
            environment.push((NIGHTLY.to_owned(), "1".to_owned()));
        }
        Ok(Self { suites, environment, _servers: servers })
    }
}

/// Runs them all: a failure in one is no reason to hide one in the next.
///
/// What runs on Crossplane mostly waits for it, whatever else the machine does. So it runs beside the others, and says
/// what it has to say when they are done.
fn perform(busy: &Lane<'_>, waiting: &Lane<'_>, filters: &[String]) -> Result<Report, TaskError> {
    if busy.suites.is_empty() {
        return in_turn(waiting, filters, &mut io::stdout());
    }
    let mut said_beside = Vec::new();
    let (report, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| in_turn(waiting, filters, &mut said_beside));
        let report = in_turn(busy, filters, &mut io::stdout());
        (report, beside.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    io::stdout().write_all(&said_beside).map_err(TaskError::Screen)?;
    let mut report = report?;
    report.extend(beside?);
    Ok(report)
}

/// Runs one after the other, and shows what each prints.
fn in_turn(
    lane: &Lane<'_>,
    filters: &[String],
    screen: &mut (impl Write + Send),
) -> Result<Report, TaskError> {
    let mut report = Report::default();
    for (suite, promised) in &lane.suites {
        let (tier, title) = (&suite.tier.name, &suite.title);
        let noun = if *promised == 1 { "test" } else { "tests" };
        writeln!(screen, "\n{tier}: {title} ({promised} {noun})").map_err(TaskError::Screen)?;
        let mut environment = lane.environment.clone();
        // What tries millions of histories does so optimised, in `prove --nightly`.
        environment.retain(|(name, _)| name != NIGHTLY || !suite.tier.is_proof());
        let (outcome, time) = suite.run(filters, &environment, screen)?;
        report.add(Row {
            tier: tier.clone(),
            suite: title.clone(),
            promised: *promised,
            outcome,
            time,
        });
    }
    Ok(report)
}
