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

use std::path::PathBuf;
use std::process::Command;

use crate::cli::TestArguments;
use crate::error::TaskError;
use crate::progress::{step, to_stderr};
use crate::servers::{ServersError, SharedServers, start_shared};
use crate::tools::{CrossplaneTools, Tools, provide_documents};
use crate::workspace::Workspace;

pub(crate) use build::Build;
use plan::Plan;
use report::{Report, Row};
pub(crate) use suite::Outcome;
use suite::{Suite, Tests};

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

    let servers_are_used = listed.iter().any(|(suite, _)| suite.tier.needs_servers);
    let servers = tools.filter(|_| servers_are_used).map(|tools| start(&tools)).transpose()?;
    let mut environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
    if *nightly {
        environment.push(("BROKER_NIGHTLY".to_owned(), "1".to_owned()));
    }
    let report = perform(&listed, filters, &environment)?;
    step(&to_stderr, "ending the servers", || drop(servers));

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

/// Runs them all: a failure in one is no reason to hide one in the next.
fn perform(
    listed: &[(Suite, usize)],
    filters: &[String],
    environment: &[(String, String)],
) -> Result<Report, TaskError> {
    let mut report = Report::default();
    for (suite, promised) in listed {
        println!(
            "\n{}: {} ({promised} {})",
            suite.tier.name,
            suite.title,
            if *promised == 1 { "test" } else { "tests" }
        );
        let (outcome, time) = suite.run(filters, environment)?;
        report.add(Row {
            tier: suite.tier.name.clone(),
            suite: suite.title.clone(),
            promised: *promised,
            outcome,
            time,
        });
    }
    Ok(report)
}
