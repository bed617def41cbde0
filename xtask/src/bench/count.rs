//! Figures that are counted: instructions by callgrind, bytes by the program itself. They are compared with those of
//! before, because neither depends much on the machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::bar::Judged;
use super::page::{between_marks, grouped};
use crate::error::TaskError;
use crate::workspace::spawn_error;
use broker_test_servers::progress::{step, to_stderr};
use broker_test_servers::tools::Valgrind;

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

    /// What comes and goes with the servers is not compared with before.
    pub(super) const fn needs_servers(self) -> bool {
        match self {
            Self::Instructions | Self::BytesPerResource => false,
            Self::Bytes => true,
        }
    }
}

/// A figure per case, in the order in which the program names its cases.
pub(super) fn measure(
    unit: Unit,
    program: &Path,
    environment: &[(String, String)],
) -> Result<Vec<(String, u64)>, TaskError> {
    let cases = cases(program)?;
    let valgrind = match unit {
        Unit::Instructions => Some(Valgrind::find_or_unpack(&to_stderr)?),
        Unit::BytesPerResource | Unit::Bytes => None,
    };
    let figure = |case: &str| {
        let figure = step(&to_stderr, &format!("measuring `{case}`"), || match &valgrind {
            Some(valgrind) => instructions(valgrind, program, case),
            None => printed(program, case, environment),
        });
        figure.map(|figure| (case.to_owned(), figure))
    };
    cases.iter().map(|case| figure(case)).collect()
}

/// The cases that a program names. One that names none would agree with any figures.
fn cases(program: &Path) -> Result<Vec<String>, TaskError> {
    let mut list = Command::new(program);
    let output = list.arg("--list").output().map_err(spawn_error(&list))?;
    let failed = |how: String| TaskError::Command {
        what: format!("listing the cases of {}", program.display()),
        how,
    };
    if !output.status.success() {
        let how = last_line(&output.stderr);
        return Err(failed(how.unwrap_or_else(|| output.status.to_string())));
    }
    let cases = String::from_utf8_lossy(&output.stdout);
    let cases: Vec<_> = cases.lines().filter(|case| !case.is_empty()).map(str::to_owned).collect();
    if cases.is_empty() { Err(failed("it names none".to_owned())) } else { Ok(cases) }
}

/// The figures as the page shows them, and below them whether they are what they are held to.
pub(super) fn text(unit: Unit, figures: &[(String, u64)], judged: Option<&Judged>) -> String {
    let bar = judged.map(|judged| format!("\n{}", judged.line()));
    table(unit, figures) + &bar.unwrap_or_default()
}

fn table(unit: Unit, figures: &[(String, u64)]) -> String {
    let rows = figures.iter().fold(String::new(), |rows, (case, figure)| {
        rows + &format!("| {case} | {} |\n", grouped(*figure))
    });
    format!("| case | {} |\n|---|---:|\n{rows}", unit.as_str())
}

/// The cases that take too much more than the page says, that it does not know, or that only it knows.
pub(super) fn steps_back(page: &str, name: &str, figures: &[(String, u64)]) -> Vec<String> {
    let known = committed(page, name);
    let judge = |(case, figure): &(String, u64)| {
        let Some(before) = known.iter().find_map(|(known, it)| (known == case).then_some(*it))
        else {
            return Some(format!("{name}: `{case}` has no committed figure"));
        };
        let bound = before + before * WORSE_BY_PERCENT / 100;
        let (now, before) = (grouped(*figure), grouped(before));
        (*figure > bound).then(|| format!("{name}: `{case}` was {before} and is {now}"))
    };
    let gone = known.iter().filter(|(known, _)| !figures.iter().any(|(case, _)| case == known));
    let gone = gone
        .map(|(case, _)| format!("{name}: `{case}` is on the page and is not measured any more"));
    figures.iter().filter_map(judge).chain(gone).collect()
}

/// The figures of a benchmark as they stand on the page.
fn committed(page: &str, name: &str) -> Vec<(String, u64)> {
    let Some((start, stop)) = between_marks(page, name) else { return Vec::new() };
    let row = |line: &str| {
        // What stands below the table is no row of it.
        let line = line.strip_prefix('|')?;
        let mut columns = line.split('|').map(str::trim).filter(|column| !column.is_empty());
        let (case, figure) = (columns.next()?, columns.next()?);
        Some((case.to_owned(), figure.replace(',', "").parse().ok()?))
    };
    page[start..stop].lines().filter_map(row).collect()
}

/// The difference between many times and none, which leaves out the preparation.
fn instructions(valgrind: &Valgrind, program: &Path, case: &str) -> Result<u64, TaskError> {
    let (before, after) =
        (count(valgrind, program, case, 0)?, count(valgrind, program, case, TIMES)?);
    Ok(after.saturating_sub(before) / TIMES)
}

fn printed(program: &Path, case: &str, environment: &[(String, String)]) -> Result<u64, TaskError> {
    let mut command = Command::new(program);
    command.arg(case).envs(environment.iter().cloned());
    let output = command.output().map_err(spawn_error(&command))?;
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

#[cfg(test)]
mod tests {
    use super::super::bar::Bar;
    use super::*;

    #[test]
    fn the_sum_is_read_from_what_callgrind_writes() {
        assert_eq!(total("version: 1\nevents: Ir\nsummary: 1234\n\nfn=x\n1 2\n"), Some(1234));
        assert_eq!(total("fn=x\n1 2\n\ntotals: 77\n"), Some(77));
        assert_eq!(total("fn=x\n"), None);
    }

    #[test]
    fn a_table_names_what_is_counted() {
        let figures = [("case".to_owned(), 1_234_567)];
        assert_eq!(
            table(Unit::Instructions, &figures),
            "| case | instructions |\n|---|---:|\n| case | 1,234,567 |\n"
        );
    }

    #[test]
    fn a_step_back_is_more_than_a_twentieth() {
        let page = "<!-- bench x -->\n| case | instructions |\n|---|---:|\n| one | 1,000 |\n\
                    | two | 40 |\n<!-- /bench x -->\n";
        let figures = |one, two| [("one".to_owned(), one), ("two".to_owned(), two)];
        assert_eq!(steps_back(page, "x", &figures(1_050, 10)), Vec::<String>::new());
        assert_eq!(
            steps_back(page, "x", &figures(1_051, 43)),
            ["x: `one` was 1,000 and is 1,051", "x: `two` was 40 and is 43"]
        );
        let new = [("three".to_owned(), 1), ("one".to_owned(), 1), ("two".to_owned(), 1)];
        assert_eq!(steps_back(page, "x", &new), ["x: `three` has no committed figure"]);
        assert_eq!(
            steps_back(page, "x", &new[..2]),
            [
                "x: `three` has no committed figure",
                "x: `two` is on the page and is not measured any more"
            ]
        );
    }

    #[test]
    fn a_program_that_fails_or_names_no_case_is_no_benchmark() {
        let listed = |program: &str| cases(Path::new(program));
        let error = |program| listed(program).unwrap_err().to_string();
        assert_eq!(error("false"), "listing the cases of false failed (exit status: 1)");
        assert_eq!(error("true"), "listing the cases of true failed (it names none)");
        assert_eq!(listed("echo").unwrap(), ["--list"], "it says what it is asked");
    }

    #[test]
    fn what_stands_below_a_table_is_not_read_as_a_figure() {
        let figures = [("one".to_owned(), 1_000)];
        let judged = Bar::Resource(1_024, "").judge(&figures);
        let text = text(Unit::BytesPerResource, &figures, Some(&judged));
        assert!(
            text.ends_with("| one | 1,000 |\n\n- at most 1,024 bytes per resource: met, 1,000\n")
        );
        let page = format!("<!-- bench x -->\n{text}- a | 7 |\n<!-- /bench x -->\n");
        assert_eq!(committed(&page, "x"), figures);
    }
}
