//! Figures that are counted: instructions by callgrind, bytes by the program itself. They are compared with those of
//! before, because neither depends much on the machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;
use broker_test_servers::progress::{step, to_stderr};
use broker_test_servers::tools::Valgrind;

use super::bar::Bar;
use super::page::{grouped, rows};

/// How often a case is run: often enough that a table which doubles once does not show.
const TIMES: u64 = 100;

/// So much more than the committed figure is a step back: less than this comes and goes with a compiler.
const WORSE_BY_PERCENT: u64 = 5;

/// What a case is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Counted by callgrind: the program runs a case as often as it is told.
    Instructions,
    /// Counted by the program itself, which prints the figure of a case.
    BytesPerResource,
    /// The same, with real servers around it; the case says of what.
    Bytes,
}

impl Unit {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::BytesPerResource => "bytes per resource",
            Self::Bytes => "bytes",
        }
    }
}

/// A figure per case, in the order in which the program names its cases.
pub(super) fn measure(
    unit: Unit,
    program: &Path,
    environment: &[(String, String)],
) -> Result<Vec<(String, u64)>> {
    let cases = cases(program)?;
    let valgrind = (unit == Unit::Instructions).then(|| Valgrind::find_or_unpack(&to_stderr));
    let valgrind = valgrind.transpose()?;
    let figure = |case: String| {
        let what = format!("measuring `{case}`");
        let figure = step(&to_stderr, &what, || {
            if let Some(valgrind) = &valgrind {
                // The difference between many times and none, which leaves out the preparation.
                let count = |times| instructions(valgrind, program, &case, times);
                return Ok((count(TIMES)?.saturating_sub(count(0)?)) / TIMES);
            }
            let mut command = Command::new(program);
            command.arg(&case).envs(environment.iter().cloned());
            let output = output(&mut command)?;
            let figure = String::from_utf8_lossy(&output.stdout);
            figure.trim().parse().with_context(|| format!("{figure:?} is no figure"))
        });
        Ok((case, figure.with_context(|| format!("{what} failed"))?))
    };
    cases.into_iter().map(figure).collect()
}

/// The cases that a program names. One that names none would agree with any figures.
fn cases(program: &Path) -> Result<Vec<String>> {
    let what = || format!("listing the cases of {} failed", program.display());
    let output = output(Command::new(program).arg("--list")).with_context(what)?;
    let cases = String::from_utf8_lossy(&output.stdout);
    let cases: Vec<_> = cases.lines().filter(|case| !case.is_empty()).map(str::to_owned).collect();
    ensure!(!cases.is_empty(), "{} names no cases", program.display());
    Ok(cases)
}

/// What a program says that ends well; otherwise the last line of its complaints.
fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(cannot_run(command))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}: {}",
        output.status,
        errors.lines().last().unwrap_or_default()
    );
    Ok(output)
}

fn instructions(valgrind: &Valgrind, program: &Path, case: &str, times: u64) -> Result<u64> {
    let counts = tempfile::NamedTempFile::new()?;
    let mut command = valgrind.command("callgrind");
    command.arg(format!("--callgrind-out-file={}", counts.path().display()));
    output(command.arg(program).args([case, &times.to_string()]))?;
    total(&fs::read_to_string(counts.path())?).context("callgrind counted nothing")
}

/// The sum in a file of callgrind's.
fn total(counts: &str) -> Option<u64> {
    let summary = counts
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    summary?.split_whitespace().next()?.parse().ok()
}

/// The figures as the page shows them, and below them whether they are what they are held to.
pub(super) fn text(unit: Unit, figures: &[(String, u64)], bars: &[Bar]) -> String {
    let row = |(case, figure): &(String, u64)| format!("| {case} | {} |\n", grouped(*figure));
    let rows: String = figures.iter().map(row).collect();
    let bars: String =
        bars.iter().flat_map(|bar| ["\n".to_owned(), bar.of_counted(figures)]).collect();
    format!("| case | {} |\n|---|---:|\n{rows}{bars}", unit.as_str())
}

/// What is wrong with some figures: bars that are missed, and the cases that take too much more than the page says, that
/// it does not know, or that only it knows.
pub(super) fn worse(
    page: &str,
    name: &str,
    figures: &[(String, u64)],
    bars: &[Bar],
) -> Vec<String> {
    let known: Vec<(&str, u64)> = rows(page, name)
        .filter_map(|row| Some((*row.first()?, row.get(1)?.replace(',', "").parse().ok()?)))
        .collect();
    let mut worse = Vec::new();
    for (case, figure) in figures {
        let before = known.iter().find(|(known, _)| known == case).map(|(_, before)| *before);
        let Some(before) = before else {
            worse.push(format!("{name}: `{case}` has no committed figure"));
            continue;
        };
        if *figure > before + before * WORSE_BY_PERCENT / 100 {
            let (now, before) = (grouped(*figure), grouped(before));
            worse.push(format!("{name}: `{case}` was {before} and is {now}"));
        }
    }
    let gone = known.iter().filter(|(known, _)| !figures.iter().any(|(case, _)| case == known));
    worse.extend(
        gone.map(|(case, _)| {
            format!("{name}: `{case}` is on the page and is not measured any more")
        }),
    );
    let bars = bars.iter().map(|bar| bar.of_counted(figures)).filter(|line| line.contains("**"));
    worse.extend(bars.map(|line| format!("{name}: {}", line.trim_start_matches("- ").trim_end())));
    worse
}

#[cfg(test)]
mod tests {
    use super::super::BENCHMARKS;
    use super::*;

    #[test]
    fn sum_is_read_from_what_callgrind_writes() {
        assert_eq!(total("version: 1\nevents: Ir\nsummary: 1234\n\nfn=x\n1 2\n"), Some(1234));
        assert_eq!(total("fn=x\n1 2\n\ntotals: 77\n"), Some(77));
        assert_eq!(total("fn=x\n"), None);
    }

    #[test]
    fn figure_is_worse_by_more_than_a_twentieth_or_beyond_its_bar() {
        type Case<'a> = (&'a [(&'a str, u64)], &'a [&'a str]);
        let page = |rows: &str| format!("<!-- bench x -->\n{rows}\n- a | 7 |\n<!-- /bench x -->\n");
        let two = page("| case | instructions |\n|---|---:|\n| one | 1,000 |\n| two | 40 |\n");
        let owned = |(case, figure): &(&str, u64)| ((*case).to_owned(), *figure);
        let worse = |page: &str, bars: &[Bar], figures: &[(&str, u64)]| {
            worse(page, "x", &figures.iter().map(owned).collect::<Vec<_>>(), bars)
        };
        let gone = "x: `two` is on the page and is not measured any more";
        let rows: [Case<'_>; 3] = [
            (&[("one", 1_050), ("two", 10)], &[]),
            (
                &[("one", 1_051), ("two", 43)],
                &["x: `one` was 1,000 and is 1,051", "x: `two` was 40 and is 43"],
            ),
            (&[("three", 1), ("one", 1)], &["x: `three` has no committed figure", gone]),
        ];
        for (figures, expected) in rows {
            assert_eq!(worse(&two, &[], figures), expected, "{figures:?}");
        }
        // A bar is missed even by what the page says.
        for (benchmark, case, most) in [
            ("next", "Ready, 48 decisions", 4_800),
            ("cache", "1,000 resources", 1_024),
            ("memory", "heap per resource, of 9", 1_024),
        ] {
            let bars = BENCHMARKS.iter().find(|it| it.name == benchmark).unwrap().bars;
            let missed = |figure| {
                let text = text(Unit::Bytes, &[owned(&(case, figure))], bars);
                worse(&page(&text), bars, &[(case, figure)])
            };
            assert_eq!(missed(most), Vec::<String>::new(), "{benchmark}");
            let over = missed(most + 1);
            assert!(over.len() == 1 && over[0].contains(": **missed**, "), "{over:?}");
        }
    }

    #[test]
    fn program_that_fails_or_names_no_case_is_no_benchmark() {
        let error = |program: &str| format!("{:#}", cases(Path::new(program)).unwrap_err());
        assert_eq!(error("false"), "listing the cases of false failed: exit status: 1: ");
        assert_eq!(error("true"), "true names no cases");
        assert_eq!(cases(Path::new("echo")).unwrap(), ["--list"], "it says what it is asked");
    }
}
