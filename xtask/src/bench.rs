//! `cargo xtask bench`: how many instructions the hot paths take, and how many bytes a cache keeps.
//!
//! Instructions and not seconds: callgrind counts the same on a busy laptop and on an idle server, so
//! that a figure in the documentation can be compared with one of today. A benchmark prepares a case and
//! runs it as often as it is told; the difference between two counts is the case without its preparation.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cargo_metadata::Message;

use crate::error::TaskError;
use crate::progress::{step, to_stderr};
use crate::tools::Valgrind;
use crate::workspace::{Workspace, spawn_error};

/// Where the figures stand.
const PAGE: &str = "docs/benchmarks.md";

/// How often a case is run: often enough that a table which doubles once does not show.
const TIMES: u64 = 100;

/// A benchmark: a bench target that names its cases when it is called with `--list`.
#[derive(Debug)]
struct Benchmark {
    name: &'static str,
    package: &'static str,
    unit: Unit,
}

/// What a case is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Counted by callgrind: the program runs a case as often as it is told.
    Instructions,
    /// Counted by the program itself, which prints the figure of a case.
    BytesPerResource,
}

impl Unit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::BytesPerResource => "bytes per resource",
        }
    }

    /// What is kept takes as many bytes in every profile, and the quickest to build is the one that is there.
    const fn profile(self) -> &'static str {
        match self {
            Self::Instructions => "bench",
            Self::BytesPerResource => "dev",
        }
    }
}

/// So much more than the committed figure is a step back: less than this comes and goes with a compiler.
const WORSE_BY_PERCENT: u64 = 5;

const BENCHMARKS: [Benchmark; 3] = [
    Benchmark { name: "next", package: "broker-domain", unit: Unit::Instructions },
    Benchmark { name: "render", package: "broker-render", unit: Unit::Instructions },
    Benchmark { name: "cache", package: "broker-kube", unit: Unit::BytesPerResource },
];

/// Measures the named benchmarks, or all of them, and writes the figures into the documentation; or, to check,
/// compares them with the figures there and leaves those as they are.
pub(crate) fn run(names: &[String], check: bool) -> Result<(), TaskError> {
    let known = || BENCHMARKS.iter().map(|benchmark| benchmark.name.to_owned()).collect();
    if let Some(name) =
        names.iter().find(|name| !BENCHMARKS.iter().any(|known| known.name == **name))
    {
        return Err(TaskError::UnknownBenchmark { name: name.clone(), known: known() });
    }
    let workspace = Workspace::load()?;
    let wanted = |benchmark: &&Benchmark| {
        names.is_empty() || names.iter().any(|name| name == benchmark.name)
    };
    let page = workspace.root().join(PAGE);
    let mut worse = Vec::new();
    for benchmark in BENCHMARKS.iter().filter(wanted) {
        let program = build(&workspace, benchmark)?;
        let figures = measure(benchmark.unit, &program)?;
        for (case, figure) in &figures {
            println!(
                "{}: {case}: {} {}",
                benchmark.name,
                grouped(*figure),
                benchmark.unit.as_str()
            );
        }
        if check {
            worse.extend(steps_back(&read(&page)?, benchmark, &figures));
        } else {
            record(&page, benchmark, &figures)?;
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    let how = worse.join("; ");
    Err(TaskError::Command { what: format!("comparing with {PAGE}"), how })
}

/// The cases that take too much more than the page says, or that it does not know.
fn steps_back(page: &str, benchmark: &Benchmark, figures: &[(String, u64)]) -> Vec<String> {
    let known = committed(page, benchmark);
    let judge = |(case, figure): &(String, u64)| {
        let name = benchmark.name;
        let Some(before) = known.iter().find_map(|(known, it)| (known == case).then_some(*it))
        else {
            return Some(format!("{name}: `{case}` has no committed figure"));
        };
        let bound = before + before * WORSE_BY_PERCENT / 100;
        let (now, before) = (grouped(*figure), grouped(before));
        (*figure > bound).then(|| format!("{name}: `{case}` was {before} and is {now}"))
    };
    figures.iter().filter_map(judge).collect()
}

/// The figures of a benchmark as they stand on the page.
fn committed(page: &str, benchmark: &Benchmark) -> Vec<(String, u64)> {
    let Some((start, stop)) = between_marks(page, benchmark) else { return Vec::new() };
    let row = |line: &str| {
        let mut columns = line.split('|').map(str::trim).filter(|column| !column.is_empty());
        let (case, figure) = (columns.next()?, columns.next()?);
        Some((case.to_owned(), figure.replace(',', "").parse().ok()?))
    };
    page[start..stop].lines().filter_map(row).collect()
}

fn read(page: &Path) -> Result<String, TaskError> {
    let file = |source| TaskError::File { doing: "read", path: PAGE.into(), source };
    fs::read_to_string(page).map_err(file)
}

/// Compiles the benchmark.
fn build(workspace: &Workspace, benchmark: &Benchmark) -> Result<PathBuf, TaskError> {
    let Benchmark { name, package, unit } = benchmark;
    let mut command = workspace.cargo(&[
        "bench",
        "--package",
        package,
        "--bench",
        name,
        "--profile",
        unit.profile(),
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    let mut cargo = command.stdout(Stdio::piped()).spawn().map_err(spawn_error(&command))?;
    let output = cargo.stdout.take().map(BufReader::new);
    let mut program = None;
    for message in output.into_iter().flat_map(Message::parse_stream) {
        if let Message::CompilerArtifact(artifact) = message.map_err(spawn_error(&command))?
            && artifact.target.name == *name
        {
            program = artifact.executable.or(program);
        }
    }
    let status = cargo.wait().map_err(spawn_error(&command))?;
    program.filter(|_| status.success()).map(Into::into).ok_or_else(|| TaskError::Command {
        what: format!("building the benchmark {name}"),
        how: status.to_string(),
    })
}

/// A figure per case, in the order in which the program names its cases.
fn measure(unit: Unit, program: &Path) -> Result<Vec<(String, u64)>, TaskError> {
    let mut list = std::process::Command::new(program);
    let cases = list.arg("--list").output().map_err(spawn_error(&list))?;
    let cases = String::from_utf8_lossy(&cases.stdout).into_owned();
    let valgrind = match unit {
        Unit::Instructions => Some(Valgrind::find_or_unpack(&to_stderr)?),
        Unit::BytesPerResource => None,
    };
    let figure = |case: &str| {
        let figure = step(&to_stderr, &format!("measuring `{case}`"), || match &valgrind {
            Some(valgrind) => instructions(valgrind, program, case),
            None => printed(program, case),
        });
        figure.map(|figure| (case.to_owned(), figure))
    };
    cases.lines().map(figure).collect()
}

/// The difference between many times and none, which leaves out the preparation.
fn instructions(valgrind: &Valgrind, program: &Path, case: &str) -> Result<u64, TaskError> {
    let (before, after) =
        (count(valgrind, program, case, 0)?, count(valgrind, program, case, TIMES)?);
    Ok(after.saturating_sub(before) / TIMES)
}

fn printed(program: &Path, case: &str) -> Result<u64, TaskError> {
    let mut command = std::process::Command::new(program);
    let output = command.arg(case).output().map_err(spawn_error(&command))?;
    let figure = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    figure.filter(|_| output.status.success()).ok_or_else(|| TaskError::Command {
        what: format!("measuring `{case}`"),
        how: last_line(&output.stderr).unwrap_or_else(|| output.status.to_string()),
    })
}

fn count(valgrind: &Valgrind, program: &Path, case: &str, times: u64) -> Result<u64, TaskError> {
    let file =
        |source| TaskError::File { doing: "create", path: "a temporary file".into(), source };
    let counts = tempfile::NamedTempFile::new().map_err(file)?;
    let mut command = valgrind.command("callgrind");
    command
        .arg(format!("--callgrind-out-file={}", counts.path().display()))
        .arg(program)
        .args([case, &times.to_string()]);
    let output = command.output().map_err(spawn_error(&command))?;
    let text = fs::read_to_string(counts.path()).unwrap_or_default();
    total(&text).filter(|_| output.status.success()).ok_or_else(|| TaskError::Command {
        what: format!("measuring `{case}`"),
        how: last_line(&output.stderr).unwrap_or_else(|| output.status.to_string()),
    })
}

/// The sum in a file of callgrind's.
fn total(counts: &str) -> Option<u64> {
    let summary = counts
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    summary?.split_whitespace().next()?.parse().ok()
}

fn last_line(output: &[u8]) -> Option<String> {
    String::from_utf8_lossy(output).lines().last().map(str::to_owned)
}

/// Writes a benchmark's figures between its marks on the page, and leaves the rest as it is.
fn record(page: &Path, benchmark: &Benchmark, figures: &[(String, u64)]) -> Result<(), TaskError> {
    let file = |source| TaskError::File { doing: "write", path: PAGE.into(), source };
    let text =
        with_figures(&read(page)?, benchmark, figures).ok_or_else(|| TaskError::Command {
            what: format!("writing the figures of {} into {PAGE}", benchmark.name),
            how: "its marks are missing".to_owned(),
        })?;
    fs::write(page, text).map_err(file)
}

fn with_figures(page: &str, benchmark: &Benchmark, figures: &[(String, u64)]) -> Option<String> {
    let unit = benchmark.unit;
    let (start, stop) = between_marks(page, benchmark)?;
    let rows = figures.iter().fold(String::new(), |rows, (case, figure)| {
        rows + &format!("| {case} | {} |\n", grouped(*figure))
    });
    let table = format!("| case | {} |\n|---|---:|\n{rows}", unit.as_str());
    Some(format!("{}{table}{}", &page[..start], &page[stop..]))
}

/// Where the figures of a benchmark begin and end on the page.
fn between_marks(page: &str, benchmark: &Benchmark) -> Option<(usize, usize)> {
    let name = benchmark.name;
    let (begin, end) = (format!("<!-- bench {name} -->\n"), format!("<!-- /bench {name} -->\n"));
    let start = page.find(&begin)? + begin.len();
    Some((start, start + page[start..].find(&end)?))
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_read_from_what_callgrind_writes() {
        assert_eq!(total("version: 1\nevents: Ir\nsummary: 1234\n\nfn=x\n1 2\n"), Some(1234));
        assert_eq!(total("fn=x\n1 2\n\ntotals: 77\n"), Some(77));
        assert_eq!(total("fn=x\n"), None);
    }

    #[test]
    fn figures_replace_those_of_the_same_benchmark_only() {
        let page =
            "a\n<!-- bench x -->\nold\n<!-- /bench x -->\nb\n<!-- bench y -->\n<!-- /bench y -->\n";
        let figures = [("case".to_owned(), 1_234_567)];
        let benchmark = |name| Benchmark { name, package: "any", unit: Unit::Instructions };
        assert_eq!(
            with_figures(page, &benchmark("x"), &figures).unwrap(),
            "a\n<!-- bench x -->\n| case | instructions |\n|---|---:|\n| case | 1,234,567 |\n\
             <!-- /bench x -->\nb\n<!-- bench y -->\n<!-- /bench y -->\n"
        );
        assert_eq!(with_figures(page, &benchmark("z"), &figures), None);
    }

    #[test]
    fn a_step_back_is_more_than_a_twentieth() {
        let page = "<!-- bench x -->\n| case | instructions |\n|---|---:|\n| one | 1,000 |\n\
                    | two | 40 |\n<!-- /bench x -->\n";
        let benchmark = Benchmark { name: "x", package: "any", unit: Unit::Instructions };
        let figures = |one, two| [("one".to_owned(), one), ("two".to_owned(), two)];
        assert_eq!(steps_back(page, &benchmark, &figures(1_050, 10)), Vec::<String>::new());
        assert_eq!(
            steps_back(page, &benchmark, &figures(1_051, 43)),
            ["x: `one` was 1,000 and is 1,051", "x: `two` was 40 and is 43"]
        );
        let new = [("three".to_owned(), 1)];
        assert_eq!(steps_back(page, &benchmark, &new), ["x: `three` has no committed figure"]);
    }

    #[test]
    fn numbers_are_grouped_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn an_unknown_benchmark_is_refused_with_the_known_ones() {
        let error = run(&["rendre".to_owned()], false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no benchmark \"rendre\"; there are next, render, cache"
        );
    }
}
