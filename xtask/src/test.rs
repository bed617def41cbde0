//! `cargo xtask test`: sets up, then runs every test of the workspace.
//!
//! ```text
//! plan ─ the tiers, and the selected ones                    (pure)
//! suite ─ one binary or all examples: build, list, run, and compare listed with executed tests
//! ```

mod plan;
mod suite;

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use broker_test_servers::progress::report_progress;
use broker_test_servers::servers::{SharedServers, start_shared};
use broker_test_servers::tools::{CrossplaneTools, Tools, cloud_init_schema};
use cargo_metadata::TargetKind;

use crate::cli::TestArguments;
use crate::workspace::{Workspace, run as run_command};
use plan::Plan;
pub(crate) use suite::{Outcome, Suite, run_tests};

/// The environment variable that makes tests use their nightly counts.
pub(crate) const NIGHTLY: &str = "BROKER_NIGHTLY";

/// The script that builds the static binary, which the image test copies.
const STATIC_BUILD: &str = ".ci/static";

pub(crate) fn run(arguments: &TestArguments) -> Result<()> {
    let TestArguments { filters, tier, nightly, quick } = arguments;
    let workspace = Workspace::load()?;
    let plan = Plan::new(workspace.packages(), tier.as_deref(), *quick)?;
    // Before the long build, so that a missing server fails at once.
    let tools = plan.needs_servers().then(Tools::find_or_build).transpose()?;
    if tools.is_some() {
        cloud_init_schema()?;
    }
    if plan.needs_crossplane() {
        CrossplaneTools::find_or_build()?;
    }

    let mut listed = Vec::new();
    for suite in suite::build(&workspace, &plan, &plan.targets())? {
        let tests = suite.list(filters)?;
        listed.push((suite, tests));
    }
    listed.retain(|(_, tests)| *tests > 0);
    if !filters.is_empty() && listed.is_empty() {
        bail!("no test's name contains {}", filters.join(" or "));
    }

    if tools.is_some() && filters.is_empty() {
        report_progress("building the static binary");
        // Before the tests, because builds that tests start would wait for it. The image test reports a failure.
        let _ = run_command(
            workspace.command(&workspace.root().join(STATIC_BUILD)).stdout(Stdio::null()),
        );
    }

    let (crossplane, others): (Vec<_>, Vec<_>) =
        listed.iter().partition(|(suite, _)| suite.tier.needs_crossplane);
    let others = Lane::new(others, tools.as_ref(), *nightly)?;
    let crossplane = Lane::new(crossplane, tools.as_ref(), *nightly)?;
    let rows = run_lanes(&others, &crossplane, filters)?;
    drop((others, crossplane));

    println!();
    let sum =
        |rows: &[Row<'_>], of: fn(Outcome) -> usize| rows.iter().map(|it| of(it.1)).sum::<usize>();
    let (passed, failed) = (|it: Outcome| it.passed, |it: Outcome| it.failed);
    for tier in rows.chunk_by(|one, next| one.0.tier == next.0.tier) {
        let name = &tier[0].0.tier.name;
        println!("{name}: {} passed, {} failed", sum(tier, passed), sum(tier, failed));
    }
    println!("{} passed, {} failed", sum(&rows, passed), sum(&rows, failed));
    let problems_of = |row: &Row<'_>| {
        let (suite, outcome, listed) = *row;
        let problems = outcome.problems(listed).into_iter();
        problems.map(|it| format!("{}: {}: {it}", suite.tier.name, suite.title)).collect::<Vec<_>>()
    };
    let problems: Vec<_> = rows.iter().flat_map(problems_of).collect();
    ensure!(problems.is_empty(), "the tests failed: {}", problems.join("; "));
    Ok(())
}

/// The test binaries of a build with these arguments.
pub(crate) fn binaries(workspace: &Workspace, arguments: &[&str]) -> Result<Vec<Suite>> {
    let plan = Plan::new(workspace.packages(), None, false)?;
    let arguments: Vec<_> = arguments.iter().copied().map(str::to_owned).collect();
    suite::build(workspace, &plan, &arguments)
}

/// A program of the workspace, built with the features of the test build so that cargo compiles no crate twice.
pub(crate) fn program(workspace: &Workspace, name: &str, tested_by: &str) -> Result<PathBuf> {
    let artifacts = suite::compile(workspace, &["--test".to_owned(), tested_by.to_owned()])?;
    // The same target is also built as a test binary.
    let mut built = artifacts.into_iter().filter(|artifact| {
        let target = &artifact.target;
        target.name == name && target.is_kind(TargetKind::Bin) && !artifact.profile.test
    });
    let program = built.find_map(|artifact| artifact.executable);
    program.map(Into::into).with_context(|| format!("the build produced no program {name}"))
}

/// Suites that run one after the other, on their own servers if they need any: cluster-wide objects of Crossplane must
/// not affect other tests.
struct Lane<'a> {
    suites: Vec<&'a (Suite, usize)>,
    environment: Vec<(String, String)>,
    /// Dropped with the lane.
    _servers: Option<SharedServers>,
}

impl<'a> Lane<'a> {
    fn new(suites: Vec<&'a (Suite, usize)>, tools: Option<&Tools>, nightly: bool) -> Result<Self> {
        let servers_are_used = suites.iter().any(|(suite, _)| suite.tier.needs_servers);
        let servers = tools.filter(|_| servers_are_used).map(start).transpose()?;
        let mut environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
        if nightly {
            environment.push((NIGHTLY.to_owned(), "1".to_owned()));
        }
        Ok(Self { suites, environment, _servers: servers })
    }
}

/// Starts the shared servers of the tests.
pub(crate) fn start(tools: &Tools) -> Result<SharedServers> {
    report_progress("starting Postgres, etcd, kube-apiserver and kube-controller-manager");
    start_shared(tools)
}

/// An executed suite, its outcome, and its number of listed tests.
type Row<'a> = (&'a Suite, Outcome, usize);

/// Runs both lanes completely, even after a failure.
///
/// Crossplane tests mostly wait for Crossplane. Their lane therefore runs concurrently with the others, and its output
/// is printed at the end.
fn run_lanes<'a>(
    others: &Lane<'a>,
    crossplane: &Lane<'a>,
    filters: &[String],
) -> Result<Vec<Row<'a>>> {
    if others.suites.is_empty() {
        return run_lane(crossplane, filters, &mut io::stdout());
    }
    let mut crossplane_output = Vec::new();
    let (rows, crossplane_rows) = thread::scope(|scope| {
        let background = scope.spawn(|| run_lane(crossplane, filters, &mut crossplane_output));
        let rows = run_lane(others, filters, &mut io::stdout());
        (rows, background.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    io::stdout().write_all(&crossplane_output)?;
    let mut rows = rows?;
    rows.extend(crossplane_rows?);
    Ok(rows)
}

/// Runs the suites of a lane in order and shows their output.
fn run_lane<'a>(
    lane: &Lane<'a>,
    filters: &[String],
    screen: &mut impl Write,
) -> Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for (suite, listed) in &lane.suites {
        writeln!(screen, "\n{}: {} ({listed} tests)", suite.tier.name, suite.title)?;
        let mut environment = lane.environment.clone();
        // The nightly counts of the proof tier need an optimised build: `cargo xtask prove --nightly` runs them.
        environment.retain(|(name, _)| name != NIGHTLY || !suite.tier.is_proof());
        rows.push((suite, suite.run(filters, &environment, screen)?, *listed));
    }
    Ok(rows)
}
