//! `cargo xtask bench`: measures the hot paths, and the whole broker against what its drivers can do.
//!
//! No page records a time. Instruction counts (callgrind) and byte counts (allocator) do not depend on the load of the
//! machine. A counted benchmark runs with and without the case; the difference excludes the preparation. Work on real
//! servers is measured as ratios between ways of the same work, in alternating rounds.
//!
//! ```text
//! count ─ instructions and bytes, and regressions            (child processes)
//! figures ─ ratios and their bars                            (pure)
//! scale ─ projection to a platform                           (pure)
//! ```

mod count;
mod figures;
mod scale;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use broker_test_servers::failure::cannot_run;
use broker_test_servers::servers::SharedServers;
use broker_test_servers::tools::Tools;

use crate::page;
use crate::test::start;
use crate::workspace::{Workspace, artifacts};
use count::{Bar as Most, Unit};
use figures::{Bar, Measurement};

/// The page with the figures.
const PAGE: &str = "docs/benchmarks.md";

/// A counted benchmark: its bench target, its package, its unit and its bars. The target lists its cases with `--list`.
type Benchmark = (&'static str, &'static str, Unit, &'static [Most]);

/// Benchmarks on servers use the profile of the works: they read a hundred thousand objects.
const BENCHMARKS: [Benchmark; 5] = [
    ("next", "broker-domain", Unit::Instructions, &[Most::Decision(100)]),
    ("render", "broker-render", Unit::Instructions, &[]),
    ("observe", "broker-ports", Unit::Instructions, &[]),
    ("cache", "broker-kube", Unit::BytesPerResource, &[Most::Resource(1_024, "")]),
    ("memory", "broker-tests", Unit::Bytes, &[Most::Resource(1_024, "heap per resource")]),
];

/// A work of the program `whole`: its name, its axis and its bars.
type Work = (&'static str, &'static str, &'static [Bar]);

/// With fewer rows, the constant number of queries per sweep dominates.
const MANY: &[&str] = &["1,000", "10,000", "100,000, cluster in memory"];

const WORKS: [Work; 10] = [
    (
        "sweep",
        "resources",
        &[Bar::Silent, Bar::Naive("1,000", 50.0), Bar::Floor(MANY, 3.0), Bar::Growth(1.1)],
    ),
    ("cold", "resources", &[]),
    ("crowd", "resources", &[Bar::Growth(1.1)]),
    ("converge", "machines", &[Bar::Share(0.7)]),
    ("watch", "changes", &[Bar::Floor(&["p99"], 10.0)]),
    ("teardown", "machines", &[]),
    ("declare", "declarations", &[]),
    ("life", "machines", &[]),
    ("drain", "events", &[Bar::Share(0.5)]),
    ("claim", "workers", &[]),
];

/// The projection of all figures to a platform; it measures nothing.
const SCALE: &str = "scale";

/// Runs the named benchmarks, or all, and writes their figures into the documentation. With `check`, compares the
/// counted figures with the committed ones and writes nothing.
pub(crate) fn run(names: &[String], check: bool) -> Result<()> {
    refuse_others(names, check)?;
    let wanted = |known: &str| names.is_empty() || names.iter().any(|name| name == known);
    let workspace = Workspace::load()?;
    let mut worse = Vec::new();
    for benchmark in BENCHMARKS.iter().filter(|it| wanted(it.0)) {
        if !check || benchmark.2 != Unit::Bytes {
            worse.extend(count(&workspace, benchmark, check)?);
        }
    }
    let works: Vec<_> = WORKS.iter().filter(|(name, ..)| !check && wanted(name)).collect();
    if !works.is_empty() {
        // Before the long build, so that a missing server fails at once.
        let tools = Tools::find_or_build()?;
        let program = build(&workspace, "whole", "broker-tests", Unit::Bytes)?;
        for work in works {
            // New servers per work: leftovers of one must not load the next.
            let text = measure(work, &program, &start(&tools)?)?;
            record(&workspace, PAGE, work.0, &text)?;
        }
    }
    if !check && wanted(SCALE) {
        let text = scale::text(&page::read(workspace.root(), PAGE)?)?;
        record(&workspace, scale::PAGE, SCALE, &text)?;
    }
    ensure!(worse.is_empty(), "comparing with {PAGE} failed ({})", worse.join("; "));
    Ok(())
}

/// Refuses unknown names and, for `check`, names without comparable figures: skipping them would look like a pass.
/// Figures on servers are not compared with earlier ones.
fn refuse_others(names: &[String], check: bool) -> Result<()> {
    let counted = BENCHMARKS.iter().filter(|it| !check || it.2 != Unit::Bytes).map(|it| it.0);
    let others = WORKS.iter().map(|(name, ..)| *name).chain([SCALE]).filter(|_| !check);
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
    (name, package, unit, bars): &Benchmark,
    check: bool,
) -> Result<Vec<String>> {
    let program = build(workspace, name, package, *unit)?;
    let servers = (*unit == Unit::Bytes).then(|| start(&Tools::find_or_build()?)).transpose()?;
    let environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
    let counted = count::measure(*unit, &program, &environment)?;
    let text = count::text(*unit, &counted, bars);
    if check {
        println!("\n{name}\n\n{text}");
        let page = page::read(workspace.root(), PAGE)?;
        let worse = count::worse(figures(&page, name), &counted, bars).into_iter();
        return Ok(worse.map(|problem| format!("{name}: {}", problem.trim())).collect());
    }
    record(workspace, PAGE, name, &text)?;
    Ok(Vec::new())
}

/// Measures a work on servers; returns its text.
fn measure((name, axis, bars): &Work, program: &Path, servers: &SharedServers) -> Result<String> {
    let mut command = Command::new(program);
    command.arg(name).envs(servers.env()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(cannot_run(&command))?;
    let lines = String::from_utf8(output.stdout)?;
    let measured: Vec<Measurement> =
        lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let is_done = output.status.success() && !measured.is_empty();
    ensure!(is_done, "measuring `{name}` failed ({})", output.status);
    Ok(figures::text(&measured, axis, bars))
}

/// Prints the result of a benchmark and writes it between its marks on a page.
fn record(workspace: &Workspace, page: &str, name: &str, text: &str) -> Result<()> {
    println!("\n{name}\n\n{text}");
    let [begin, end] = marks(name);
    page::write(workspace.root(), page, (&begin, &end), text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_or_uncheckable_name_is_refused() {
        for (name, check, refused) in [
            ("rendre", false, true),
            ("sweep", false, false),
            ("scale", false, false),
            ("cache", true, false),
            ("memory", true, true),
            ("sweep", true, true),
        ] {
            let answer = refuse_others(&["next".to_owned(), name.to_owned()], check);
            assert_eq!(answer.is_err(), refused, "{name}: {answer:?}");
        }
    }
}
