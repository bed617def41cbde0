//! `cargo xtask bench`: how much the hot paths take, and how near the whole is to what its drivers can do at all.
//!
//! No time is ever kept. Callgrind counts the same instructions on a busy laptop and on an idle server, and an
//! allocator the same bytes; a counted benchmark prepares a case and runs it as often as it is told, and the
//! difference between two counts is the case without its preparation. What needs real servers is measured as
//! ratios between ways of doing the same, in turns.
//!
//! ```text
//! count ─ instructions and bytes, and steps back              (child processes)
//! whole ─ ratios on real servers                              (child processes)
//! figures ─ what becomes of them                              (pure)
//! bar   ─ what they are held to                               (pure)
//! page  ─ where they stand
//! scale ─ what they mean for a platform
//! ```

mod bar;
mod count;
mod figures;
mod page;
mod scale;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use broker_test_servers::failure::cannot_run;
use broker_test_servers::progress::{step, to_stderr};
use broker_test_servers::servers::SharedServers;
use broker_test_servers::tools::Tools;

use crate::test::start;
use crate::workspace::{Workspace, artifacts};
use bar::Bar;
use count::Unit;
use figures::Measurement;
use page::PAGE;

/// A counted benchmark: a bench target that names its cases when it is called with `--list`.
#[derive(Debug)]
struct Benchmark {
    name: &'static str,
    package: &'static str,
    unit: Unit,
    /// What it is held to, whatever the page says.
    bars: &'static [Bar],
}

/// Those on servers are built like the works, because a hundred thousand objects have to be read.
const BENCHMARKS: [Benchmark; 5] = [
    Benchmark {
        name: "next",
        package: "broker-domain",
        unit: Unit::Instructions,
        bars: &[Bar::Decision(100)],
    },
    Benchmark { name: "render", package: "broker-render", unit: Unit::Instructions, bars: &[] },
    Benchmark { name: "observe", package: "broker-ports", unit: Unit::Instructions, bars: &[] },
    Benchmark {
        name: "cache",
        package: "broker-kube",
        unit: Unit::BytesPerResource,
        bars: &[Bar::Resource(1_024, "")],
    },
    Benchmark {
        name: "memory",
        package: "broker-tests",
        unit: Unit::Bytes,
        bars: &[Bar::Resource(1_024, "heap per resource")],
    },
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
    for benchmark in BENCHMARKS.iter().filter(|it| wanted(it.name)) {
        if !check || benchmark.unit != Unit::Bytes {
            worse.extend(count(&workspace, benchmark, check)?);
        }
    }
    let works: Vec<_> = WORKS.iter().filter(|(name, ..)| !check && wanted(name)).collect();
    if !works.is_empty() {
        // Before the long build: a missing server is better learnt at once.
        let tools = Tools::find_or_build(&to_stderr)?;
        let program = build(&workspace, "whole", "broker-tests", Unit::Bytes)?;
        for work in works {
            // Servers of its own for each: what one leaves behind is no load on the next.
            measure(&workspace, work, &program, &start(&tools)?)?;
        }
    }
    if !check && wanted(SCALE) {
        let text = scale::text(&page::read(workspace.root(), PAGE)?)?;
        println!("\nscale\n\n{text}");
        page::record(workspace.root(), scale::PAGE, SCALE, &text)?;
    }
    ensure!(worse.is_empty(), "comparing with {PAGE} failed ({})", worse.join("; "));
    Ok(())
}

/// Every name has to be one that there is and, to check, one whose figures can be compared: who asks for something that
/// is then left out would take it for checked. What comes and goes with the servers is not compared with before.
fn refuse_others(names: &[String], check: bool) -> Result<()> {
    let counted = BENCHMARKS.iter().map(|it| it.name);
    let known: Vec<_> =
        counted.chain(WORKS.iter().map(|(name, ..)| *name)).chain([SCALE]).collect();
    let checked = BENCHMARKS.iter().filter(|it| it.unit != Unit::Bytes).map(|it| it.name);
    let checked: Vec<_> = checked.collect();
    for name in names.iter().map(String::as_str) {
        if !known.contains(&name) {
            bail!("there is no benchmark {name:?}; there are {}", known.join(", "));
        }
        if check && !checked.contains(&name) {
            let known = checked.join(", ");
            bail!(
                "the benchmark {name:?} can only be measured; those that can be checked are {known}"
            );
        }
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
fn count(workspace: &Workspace, benchmark: &Benchmark, check: bool) -> Result<Vec<String>> {
    let Benchmark { name, package, unit, bars } = benchmark;
    let program = build(workspace, name, package, *unit)?;
    let servers = (*unit == Unit::Bytes).then(|| start(&Tools::find_or_build(&to_stderr)?));
    let servers = servers.transpose()?;
    let environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
    let figures = count::measure(*unit, &program, &environment)?;
    let text = count::text(*unit, &figures, bars);
    println!("\n{name}\n\n{text}");
    if check {
        return Ok(count::worse(&page::read(workspace.root(), PAGE)?, name, &figures, bars));
    }
    page::record(workspace.root(), PAGE, name, &text)?;
    Ok(Vec::new())
}

/// Measures a work on servers, prints what it came to, and writes it into the documentation.
fn measure(
    workspace: &Workspace,
    (name, axis, bars): &Work,
    program: &Path,
    servers: &SharedServers,
) -> Result<()> {
    let mut command = Command::new(program);
    command.arg(name).envs(servers.env()).stdin(Stdio::null()).stdout(Stdio::piped());
    let what = format!("measuring `{name}`");
    let measured = step(&to_stderr, &what, || {
        let mut child = command.spawn().with_context(cannot_run(&command))?;
        let mut measured: Vec<Measurement> = Vec::new();
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
            let line = line?;
            measured.push(serde_json::from_str(&line).with_context(|| format!("{what}: {line}"))?);
        }
        let status = child.wait()?;
        ensure!(status.success() && !measured.is_empty(), "{what} failed ({status})");
        Ok(measured)
    })?;
    let text = figures::text(&measured, axis, bars);
    println!("\n{name}\n\n{text}");
    page::record(workspace.root(), PAGE, name, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_measured_or_checked_are_refused_with_those_that_can() {
        let refused = |names: &[&str], check| {
            let names: Vec<_> = names.iter().copied().map(str::to_owned).collect();
            refuse_others(&names, check).err().map(|error| error.to_string())
        };
        let unknown = refused(&["next", "rendre"], false).unwrap();
        let all = "next, render, observe, cache, memory, sweep, cold, crowd, converge, watch, teardown, \
                   declare, life, drain, claim, scale";
        assert_eq!(unknown, format!("there is no benchmark \"rendre\"; there are {all}"));
        for name in ["memory", "sweep", "life", "scale"] {
            let error = refused(&["next", name], true).unwrap();
            let checked = "those that can be checked are next, render, observe, cache";
            assert_eq!(error, format!("the benchmark {name:?} can only be measured; {checked}"));
            assert_eq!(refused(&["next", name], false), None);
        }
        assert_eq!(refused(&["next", "cache"], true), None);
    }
}
