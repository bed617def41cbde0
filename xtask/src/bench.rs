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
//! bar   ─ what these are held to                              (pure)
//! whole ─ ratios on real servers                              (child processes)
//! ratio, works, table, plot ─ what becomes of them            (pure)
//! page  ─ where the figures stand
//! scale ─ what they mean for a platform
//! ```

mod bar;
mod build;
mod count;
mod page;
mod plot;
mod ratio;
mod scale;
mod table;
mod whole;
mod works;

use bar::Bar;
use build::build;
use count::{Unit, steps_back};
use page::{PAGE, grouped};
use works::{WORKS, Work};

use crate::error::TaskError;
use crate::workspace::Workspace;
use broker_test_servers::progress::{step, to_stderr};
use broker_test_servers::servers::{SharedServers, start_shared};
use broker_test_servers::tools::Tools;

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
    /// What it is held to, whatever the page says.
    bar: Option<Bar>,
}

impl Benchmark {
    const fn instructions(name: &'static str, package: &'static str) -> Self {
        let target = Target { name, package, features: &[], profile: "bench" };
        Self { target, unit: Unit::Instructions, bar: None }
    }

    /// What is kept takes as many bytes in every profile, and the quickest to build is the one that is there.
    const fn bytes(name: &'static str, package: &'static str) -> Self {
        let target = Target { name, package, features: &[], profile: "dev" };
        Self { target, unit: Unit::BytesPerResource, bar: None }
    }

    /// The same with real servers around it, built like the works, because a hundred thousand objects have to be read.
    const fn bytes_on_servers(name: &'static str) -> Self {
        let target =
            Target { name, package: "broker-tests", features: &["bench"], profile: "bench" };
        Self { target, unit: Unit::Bytes, bar: None }
    }

    const fn held_to(self, bar: Bar) -> Self {
        Self { bar: Some(bar), ..self }
    }

    /// What comes and goes with the servers is not compared with before.
    const fn can_be_checked(&self) -> bool {
        !self.unit.needs_servers()
    }

    /// What is wrong with some figures: steps back behind the page, and the bar if it is missed.
    fn worse(&self, page: &str, figures: &[(String, u64)]) -> Vec<String> {
        let Self { target: Target { name, .. }, bar, .. } = self;
        let missed = bar.and_then(|bar| bar.judge(figures).complaint(name));
        steps_back(page, name, figures).into_iter().chain(missed).collect()
    }
}

const BENCHMARKS: [Benchmark; 5] = [
    Benchmark::instructions("next", "broker-domain").held_to(Bar::Decision(100)),
    Benchmark::instructions("render", "broker-render"),
    Benchmark::instructions("observe", "broker-ports"),
    Benchmark::bytes("cache", "broker-kube").held_to(Bar::Resource(1_024, "")),
    Benchmark::bytes_on_servers("memory").held_to(Bar::Resource(1_024, "heap per resource")),
];

/// What all others mean for a platform: nothing is measured for it.
const SCALE: &str = "scale";

/// What all works are measured by.
const WHOLE: Target =
    Target { name: "whole", package: "broker-tests", features: &["bench"], profile: "bench" };

/// Measures the named benchmarks, or all of them, and writes the figures into the documentation; or, to check,
/// compares those that can be compared with the figures there and leaves those as they are.
pub(crate) fn run(names: &[String], check: bool) -> Result<(), TaskError> {
    refuse_others(names, check)?;
    let wanted = |known: &str| names.is_empty() || names.iter().any(|name| name == known);
    let workspace = Workspace::load()?;
    let mut worse = Vec::new();
    let comparable = |it: &&Benchmark| !check || it.can_be_checked();
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

/// Every name has to be one that there is and, to check, one whose figures can be compared: who asks for something that
/// is then left out would take it for checked.
fn refuse_others(names: &[String], check: bool) -> Result<(), TaskError> {
    let owned = |known: &[&str]| known.iter().copied().map(str::to_owned).collect();
    let counted = BENCHMARKS.iter().map(|it| it.target.name);
    let known: Vec<_> = counted.chain(WORKS.iter().map(|work| work.name)).chain([SCALE]).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(TaskError::UnknownBenchmark { name: name.clone(), known: owned(&known) });
    }
    let checked = BENCHMARKS.iter().filter(|it| it.can_be_checked()).map(|it| it.target.name);
    let checked: Vec<_> = checked.collect();
    match names.iter().find(|name| check && !checked.contains(&name.as_str())) {
        Some(name) => {
            Err(TaskError::CannotBeChecked { name: name.clone(), known: owned(&checked) })
        }
        None => Ok(()),
    }
}

/// Counts one benchmark; answers what is wrong with it, if that is asked for.
fn count(
    workspace: &Workspace,
    benchmark: &Benchmark,
    check: bool,
) -> Result<Vec<String>, TaskError> {
    let Benchmark { target, unit, bar } = benchmark;
    let program = build(workspace, target)?;
    let servers = unit.needs_servers().then(|| start(&Tools::find_or_build(&to_stderr)?));
    let servers = servers.transpose()?;
    let environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
    let figures = count::measure(*unit, &program, &environment)?;
    for (case, figure) in &figures {
        println!("{}: {case}: {} {}", target.name, grouped(*figure), unit.as_str());
    }
    let judged = bar.map(|bar| bar.judge(&figures));
    if let Some(judged) = &judged {
        print!("{}", judged.line());
    }
    if check {
        return Ok(benchmark.worse(&page::read(workspace.root())?, &figures));
    }
    let text = count::text(*unit, &figures, judged.as_ref());
    page::record(workspace.root(), target.name, &text)?;
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
             cold, crowd, converge, watch, teardown, declare, life, drain, claim, scale"
        );
    }

    #[test]
    fn what_cannot_be_checked_is_refused_with_what_can() {
        for name in ["memory", "sweep", "life", "scale"] {
            let error = run(&["next".to_owned(), name.to_owned()], true).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the benchmark \"{name}\" can only be measured; those that can be checked are next, \
                     render, observe, cache"
                )
            );
        }
        refuse_others(&["next".to_owned(), "cache".to_owned()], true).unwrap();
        refuse_others(&["memory".to_owned(), "sweep".to_owned(), "scale".to_owned()], false)
            .unwrap();
    }

    #[test]
    fn a_bar_is_missed_even_by_what_the_page_says() {
        let worse = |name: &str, case: &str, figure| {
            let benchmark = BENCHMARKS.iter().find(|it| it.target.name == name).unwrap();
            let row = format!("| {case} | {} |", grouped(figure));
            let page = format!("<!-- bench {name} -->\n{row}\n<!-- /bench {name} -->\n");
            benchmark.worse(&page, &[(case.to_owned(), figure)])
        };
        for (name, case, most, missed) in [
            (
                "next",
                "Ready, 48 decisions",
                4_800,
                "100 instructions for each decision: missed, 101",
            ),
            ("cache", "1,000 resources", 1_024, "1,024 bytes per resource: missed, 1,025"),
            ("memory", "heap per resource, of 9", 1_024, "1,024 bytes per resource: missed, 1,025"),
        ] {
            assert_eq!(worse(name, case, most), Vec::<String>::new());
            assert_eq!(worse(name, case, most + 1), [format!("{name}: at most {missed}")]);
        }
        assert_eq!(worse("render", "any", u64::MAX / 200), Vec::<String>::new(), "it has none");
    }
}
