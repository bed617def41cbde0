//! `cargo xtask bench`: how much the hot paths take, and how near the whole is to what its drivers can do at all.
//!
//! No time is ever kept. Callgrind counts the same instructions on a busy laptop and on an idle server, and an
//! allocator the same bytes; a counted benchmark prepares a case and runs it as often as it is told, and the
//! difference between two counts is the case without its preparation. What needs real servers is measured as
//! ratios between ways of doing the same, in turns.
//!
//! ```text
//! count ─ instructions and bytes, and steps back              (child processes)
//! figures ─ ratios, and what they are held to                 (pure)
//! scale ─ what both mean for a platform                       (pure)
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

/// Where the figures stand.
const PAGE: &str = "docs/benchmarks.md";

/// A counted benchmark: a bench target that names its cases when it is called with `--list`, its package, and what it is
/// held to, whatever the page says.
type Benchmark = (&'static str, &'static str, Unit, &'static [Most]);

/// Those on servers are built like the works, because a hundred thousand objects have to be read.
const BENCHMARKS: [Benchmark; 5] = [
    ("next", "broker-domain", Unit::Instructions, &[Most::Decision(100)]),
    ("render", "broker-render", Unit::Instructions, &[]),
    ("observe", "broker-ports", Unit::Instructions, &[]),
    ("cache", "broker-kube", Unit::BytesPerResource, &[Most::Resource(1_024, "")]),
    ("memory", "broker-tests", Unit::Bytes, &[Most::Resource(1_024, "heap per resource")]),
];

/// A work of the program `whole`: its name, what there is more and more of, and what it is held to.
type Work = (&'static str, &'static str, &'static [Bar]);

/// Below this the handful of questions that any sweep asks weighs more than the rows.
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

/// What all others mean for a platform: nothing is measured for it.
const SCALE: &str = "scale";

/// Measures the named benchmarks, or all of them, and writes the figures into the documentation; or, to check,
/// compares those that can be compared with the figures there and leaves those as they are.
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
        // Before the long build: a missing server is better learnt at once.
        let tools = Tools::find_or_build()?;
        let program = build(&workspace, "whole", "broker-tests", Unit::Bytes)?;
        for work in works {
            // Servers of its own for each: what one leaves behind is no load on the next.
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

/// Every name has to be one that there is and, to check, one whose figures can be compared: who asks for something that
/// is then left out would take it for checked. What comes and goes with the servers is not compared with before.
fn refuse_others(names: &[String], check: bool) -> Result<()> {
    let counted = BENCHMARKS.iter().filter(|it| !check || it.2 != Unit::Bytes).map(|it| it.0);
    let others = WORKS.iter().map(|(name, ..)| *name).chain([SCALE]).filter(|_| !check);
    let known: Vec<_> = counted.chain(others).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let what = if check { "can be checked" } else { "there are" };
        bail!("{name:?} is none of the benchmarks that {what}: {}", known.join(", "));
    }
    Ok(())
}

/// Compiles a benchmark; answers the program. What is kept takes as many bytes in every profile, and the quickest to
/// build is the one that is there.
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

/// Counts one benchmark; answers what is wrong with it, if that is asked for.
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

/// Measures a work on servers; answers what it came to.
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

/// Prints what a benchmark came to, and writes it between its marks on a page.
fn record(workspace: &Workspace, page: &str, name: &str, text: &str) -> Result<()> {
    println!("\n{name}\n\n{text}");
    let [begin, end] = marks(name);
    page::write(workspace.root(), page, (&begin, &end), text)
}

/// The figures of a benchmark as they stand on a page.
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
    fn name_that_cannot_be_measured_or_checked_is_refused() {
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
