//! `cargo xtask bench`: how much the hot paths take, and how near the whole is to what its drivers can do at all.
//!
//! No time is ever kept. Callgrind counts the same instructions on a busy laptop and on an idle server, and an
//! allocator the same bytes; a counted benchmark prepares a case and runs it as often as it is told, and the
//! difference between two counts is the case without its preparation. What needs real servers is measured as
//! ratios between ways of doing the same, in turns.
//!
//! ```text
//! build ─ one benchmark, compiled                             (cargo)
//! count ─ instructions and bytes, and steps back              (child processes)
//! whole ─ ratios on real servers                              (child processes)
//! ratio, works, table, plot ─ what becomes of them            (pure)
//! page  ─ where the figures stand
//! scale ─ what they mean for a platform
//! ```

mod build;
mod count;
mod page;
mod plot;
mod ratio;
mod scale;
mod table;
mod whole;
mod works;

use build::build;
use count::{Unit, steps_back};
use page::{PAGE, grouped};
use works::{WORKS, Work};

use crate::error::TaskError;
use crate::progress::{step, to_stderr};
use crate::servers::{SharedServers, start_shared};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// A bench target, and how it is built.
#[derive(Debug)]
struct Target {
    name: &'static str,
    package: &'static str,
    features: &'static [&'static str],
    profile: &'static str,
}

/// A counted benchmark: a bench target that names its cases when it is called with `--list`.
#[derive(Debug)]
struct Benchmark {
    target: Target,
    unit: Unit,
}

impl Benchmark {
    const fn instructions(name: &'static str, package: &'static str) -> Self {
        let target = Target { name, package, features: &[], profile: "bench" };
        Self { target, unit: Unit::Instructions }
    }

    /// What is kept takes as many bytes in every profile, and the quickest to build is the one that is there.
    const fn bytes(name: &'static str, package: &'static str) -> Self {
        let target = Target { name, package, features: &[], profile: "dev" };
        Self { target, unit: Unit::BytesPerResource }
    }

    /// The same with real servers around it, built like the works, because a hundred thousand objects have to be read.
    const fn bytes_on_servers(name: &'static str) -> Self {
        let target =
            Target { name, package: "broker-tests", features: &["bench"], profile: "bench" };
        Self { target, unit: Unit::Bytes }
    }
}

const BENCHMARKS: [Benchmark; 5] = [
    Benchmark::instructions("next", "broker-domain"),
    Benchmark::instructions("render", "broker-render"),
    Benchmark::instructions("observe", "broker-ports"),
    Benchmark::bytes("cache", "broker-kube"),
    Benchmark::bytes_on_servers("memory"),
];

/// What all others mean for a platform: nothing is measured for it.
const SCALE: &str = "scale";

/// What all works are measured by.
const WHOLE: Target =
    Target { name: "whole", package: "broker-tests", features: &["bench"], profile: "bench" };

/// Measures the named benchmarks, or all of them, and writes the figures into the documentation; or, to check,
/// compares those that can be compared with the figures there and leaves those as they are.
pub(crate) fn run(names: &[String], check: bool) -> Result<(), TaskError> {
    let known: Vec<_> = BENCHMARKS.iter().map(|it| it.target.name).collect();
    let known = known.into_iter().chain(WORKS.iter().map(|work| work.name));
    let known: Vec<_> = known.chain([SCALE]).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.into_iter().map(str::to_owned).collect();
        return Err(TaskError::UnknownBenchmark { name: name.clone(), known });
    }
    let wanted = |known: &str| names.is_empty() || names.iter().any(|name| name == known);
    let workspace = Workspace::load()?;
    let mut worse = Vec::new();
    let comparable = |it: &&Benchmark| !check || !it.unit.needs_servers();
    let counted = BENCHMARKS.iter().filter(|it| wanted(it.target.name)).filter(comparable);
    for benchmark in counted {
        worse.extend(count(&workspace, benchmark, check)?);
    }
    let works: Vec<_> = WORKS.iter().filter(|work| !check && wanted(work.name)).collect();
    if !works.is_empty() {
        measure(&workspace, &works)?;
    }
    if !check && wanted(SCALE) {
        scale::write(workspace.root())?;
    }
    if worse.is_empty() {
        return Ok(());
    }
    let how = worse.join("; ");
    Err(TaskError::Command { what: format!("comparing with {PAGE}"), how })
}

/// Counts one benchmark; answers its steps back, if they are asked for.
fn count(
    workspace: &Workspace,
    Benchmark { target, unit }: &Benchmark,
    check: bool,
) -> Result<Vec<String>, TaskError> {
    let program = build(workspace, target)?;
    let servers = unit.needs_servers().then(|| start(&Tools::find_or_build(&to_stderr)?));
    let servers = servers.transpose()?;
    let environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
    let figures = count::measure(*unit, &program, &environment)?;
    for (case, figure) in &figures {
        println!("{}: {case}: {} {}", target.name, grouped(*figure), unit.as_str());
    }
    if check {
        return Ok(steps_back(&page::read(workspace.root())?, target.name, &figures));
    }
    page::record(workspace.root(), target.name, &count::table(*unit, &figures))?;
    Ok(Vec::new())
}

/// Measures works, on servers that are started for them.
fn measure(workspace: &Workspace, works: &[&Work]) -> Result<(), TaskError> {
    // Before the long build: a missing server is better learnt at once.
    let tools = Tools::find_or_build(&to_stderr)?;
    let program = build(workspace, &WHOLE)?;
    for work in works {
        // Servers of its own for each: what one leaves behind is no load on the next.
        let servers = start(&tools)?;
        whole::run(workspace.root(), work, &program, &servers.env())?;
    }
    Ok(())
}

fn start(tools: &Tools) -> Result<SharedServers, TaskError> {
    let what = "starting Postgres, etcd, kube-apiserver and kube-controller-manager";
    Ok(step(&to_stderr, what, || start_shared(tools, &|_| {}))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_benchmark_is_refused_with_the_known_ones() {
        let error = run(&["rendre".to_owned()], false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no benchmark \"rendre\"; there are next, render, observe, cache, memory, sweep, \
             cold, crowd, converge, watch, teardown, declare, drain, claim, scale"
        );
    }
}
