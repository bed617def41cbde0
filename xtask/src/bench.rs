//! `cargo xtask bench`: measures the hot paths, and the whole broker against a baseline.
//!
//! No page records a time. Instruction counts (callgrind) and byte counts (allocator) do not depend on the load of the
//! machine. A counted benchmark runs with and without the case; the difference excludes the preparation. A workload on
//! real servers is measured as ratios between ways to do it, in alternating rounds.
//!
//! ```text
//! count ─ instructions and bytes, and regressions            (child processes)
//! figures ─ ratios and thresholds                            (pure)
//! ```

mod count;
mod figures;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use broker_test_servers::failure::cannot_run;
use broker_test_servers::servers::SharedServers;
use broker_test_servers::tools::Tools;

use crate::page;
use crate::test::start;
use crate::workspace::{Workspace, artifacts};
use count::{Limit, Unit};
use figures::{Measurement, Threshold};

/// The page with the figures.
const PAGE: &str = "docs/benchmarks.md";

/// A counted benchmark: its bench target, its package, its unit and its limits. The target lists its cases with `--list`.
type Benchmark = (&'static str, &'static str, Unit, &'static [Limit]);

/// Benchmarks on servers use the profile of the workloads: they read a hundred thousand objects.
const BENCHMARKS: [Benchmark; 5] = [
    ("next", "broker-domain", Unit::Instructions, &[Limit::InstructionsPerDecision(100)]),
    ("render", "broker-render", Unit::Instructions, &[]),
    ("observe", "broker-ports", Unit::Instructions, &[]),
    ("cache", "broker-kube", Unit::BytesPerResource, &[Limit::BytesPerResource(1_024, "")]),
    ("memory", "broker-tests", Unit::Bytes, &[Limit::BytesPerResource(1_024, "heap per resource")]),
];

/// A workload of the program `end_to_end`: its name, its axis and its thresholds.
type Workload = (&'static str, &'static str, &'static [Threshold]);

/// With fewer rows, the constant number of queries per sweep dominates.
const LARGE_CASES: &[&str] = &["1,000", "10,000", "100,000, cluster in memory"];

const WORKLOADS: [Workload; 10] = [
    (
        "sweep",
        "resources",
        &[
            Threshold::NoRequestsOrWrites,
            Threshold::NaiveAtLeast("1,000", 50.0),
            Threshold::BaselineAtMost(LARGE_CASES, 3.0),
            Threshold::ExponentAtMost(1.1),
        ],
    ),
    ("cold", "resources", &[]),
    ("million_rows", "resources", &[Threshold::ExponentAtMost(1.1)]),
    ("converge", "machines", &[Threshold::ThroughputAtLeast(0.7)]),
    ("watch", "changes", &[Threshold::BaselineAtMost(&["p99"], 10.0)]),
    ("teardown", "machines", &[]),
    ("declare", "declarations", &[]),
    ("lifecycle", "machines", &[]),
    ("drain", "events", &[Threshold::ThroughputAtLeast(0.5)]),
    ("claim", "workers", &[]),
];

/// Runs the named benchmarks, or all, and writes their figures into the documentation. With `check`, compares the
/// counted figures with the committed ones and writes nothing.
pub(crate) fn run(names: &[String], check: bool) -> Result<()> {
    refuse_unknown(names, check)?;
    let wanted = |known: &str| names.is_empty() || names.iter().any(|name| name == known);
    let workspace = Workspace::load()?;
    let mut regressions = Vec::new();
    for benchmark in BENCHMARKS.iter().filter(|it| wanted(it.0)) {
        if !check || benchmark.2 != Unit::Bytes {
            regressions.extend(count(&workspace, benchmark, check)?);
        }
    }
    let workloads: Vec<_> = WORKLOADS.iter().filter(|(name, ..)| !check && wanted(name)).collect();
    if !workloads.is_empty() {
        // Before the long build, so that a missing server fails at once.
        let tools = Tools::find_or_build()?;
        let program = build(&workspace, "end_to_end", "broker-tests", Unit::Bytes)?;
        for workload in workloads {
            // New servers per workload: leftovers of one must not load the next.
            let text = measure(workload, &program, &start(&tools)?)?;
            record(&workspace, workload.0, &text)?;
        }
    }
    ensure!(regressions.is_empty(), "comparing with {PAGE} failed ({})", regressions.join("; "));
    Ok(())
}

/// Refuses unknown names and, for `check`, names without comparable figures: skipping them would look like a pass.
/// Figures on servers are not compared with earlier ones.
fn refuse_unknown(names: &[String], check: bool) -> Result<()> {
    let counted = BENCHMARKS.iter().filter(|it| !check || it.2 != Unit::Bytes).map(|it| it.0);
    let others = WORKLOADS.iter().map(|(name, ..)| *name).filter(|_| !check);
    let known: Vec<_> = counted.chain(others).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let what = if check { "can be checked" } else { "exists" };
        bail!("{name:?} is not a benchmark that {what}: {}", known.join(", "));
    }
    Ok(())
}

/// Compiles a benchmark and returns the program. Heap bytes do not depend on the profile, so they use the one that is
/// built already.
fn build(workspace: &Workspace, name: &str, package: &str, unit: Unit) -> Result<PathBuf> {
    let profile = if unit == Unit::BytesPerResource { "dev" } else { "bench" };
    let mut command = workspace.cargo(&["bench", "--package", package, "--bench", name]);
    command.args(["--no-run", "--profile", profile]);
    if unit == Unit::Bytes {
        command.args(["--features", "bench"]);
    }
    let (built, status) = artifacts(&mut command)?;
    let program =
        built.into_iter().filter(|it| it.target.name == name).find_map(|it| it.executable);
    let program = program.filter(|_| status.success()).map(Into::into);
    program.with_context(|| format!("building the benchmark {name} failed ({status})"))
}

/// Counts one benchmark; returns regressions for `check`.
fn count(
    workspace: &Workspace,
    (name, package, unit, limits): &Benchmark,
    check: bool,
) -> Result<Vec<String>> {
    let program = build(workspace, name, package, *unit)?;
    let servers = (*unit == Unit::Bytes).then(|| start(&Tools::find_or_build()?)).transpose()?;
    let environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
    let counted = count::measure(*unit, &program, &environment)?;
    let text = count::text(*unit, &counted, limits);
    if check {
        println!("\n{name}\n\n{text}");
        let page = page::read(workspace.root(), PAGE)?;
        let regressions = count::regressions(figures(&page, name), &counted, limits).into_iter();
        return Ok(regressions.map(|problem| format!("{name}: {}", problem.trim())).collect());
    }
    record(workspace, name, &text)?;
    Ok(Vec::new())
}

/// Measures a workload on servers; returns its text.
fn measure(
    (name, axis, thresholds): &Workload,
    program: &Path,
    servers: &SharedServers,
) -> Result<String> {
    let mut command = Command::new(program);
    command.arg(name).envs(servers.env()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(cannot_run(&command))?;
    let lines = String::from_utf8(output.stdout)?;
    let measured: Vec<Measurement> =
        lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let is_done = output.status.success() && !measured.is_empty();
    ensure!(is_done, "measuring `{name}` failed ({})", output.status);
    Ok(figures::text(&measured, axis, thresholds))
}

/// Prints the result of a benchmark and writes it between its marks on the page.
fn record(workspace: &Workspace, name: &str, text: &str) -> Result<()> {
    println!("\n{name}\n\n{text}");
    let [begin, end] = marks(name);
    page::write(workspace.root(), PAGE, (&begin, &end), text)
}

/// The committed figures of a benchmark.
fn figures<'a>(page: &'a str, name: &str) -> &'a str {
    let [begin, end] = marks(name);
    page::between(page, (&begin, &end))
}

fn marks(name: &str) -> [String; 2] {
    [format!("<!-- bench {name} -->\n"), format!("<!-- /bench {name} -->\n")]
}

/// `1234567` as `1,234,567`.
fn grouped(number: impl std::fmt::Display) -> String {
    let digits = format!("{number}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
