//! Counted figures: instructions by callgrind, bytes by the program. They barely depend on the machine, so they are
//! compared with the committed ones.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;
use broker_test_servers::tools::Valgrind;

use super::grouped;
use crate::page::rows;

/// Runs per case: enough to hide a single table growth.
const RUNS: u64 = 100;

/// Smaller differences come from the compiler.
const REGRESSION_PERCENT: u64 = 5;

/// The unit of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Counted by callgrind, from a program that runs a case a given number of times.
    Instructions,
    /// Counted and printed by the program.
    BytesPerResource,
    /// Counted by the program with real servers around it; the case names the quantity.
    Bytes,
}

pub(super) type Figures = Vec<(String, u64)>;

/// The limit of a benchmark, independent of committed figures: it stops a slow increase. The worst case decides.
pub(super) enum Limit {
    /// At most this many instructions per decision. The case name contains the number: `Pending, 48 decisions`.
    InstructionsPerDecision(u64),
    /// At most this many bytes per resource, in cases with this prefix.
    BytesPerResource(u64, &'static str),
}

impl Limit {
    /// A line of the page.
    fn line(&self, figures: &Figures) -> String {
        let (limit, what, prefix) = match self {
            Self::InstructionsPerDecision(limit) => (*limit, "instructions per decision", ""),
            Self::BytesPerResource(limit, prefix) => (*limit, "bytes per resource", *prefix),
        };
        let each = figures.iter().filter(|(case, _)| case.starts_with(prefix));
        let each = each.map(|(case, figure)| match self {
            Self::InstructionsPerDecision(_) => per_decision(case, *figure),
            Self::BytesPerResource(..) => Some(*figure),
        });
        // The worst case; `None` if one is unknown, because it may be the worst.
        let worst = each.collect::<Option<Vec<_>>>().and_then(|each| each.into_iter().max());
        let (met, found) = match worst {
            Some(found) if found <= limit => ("met", grouped(found)),
            Some(found) => ("**missed**", grouped(found)),
            None => ("**missed**", "not measured".to_owned()),
        };
        format!("- at most {} {what}: {met}, {found}\n", grouped(limit))
    }
}

/// Rounded up: truncation must not meet a limit.
fn per_decision(case: &str, figure: u64) -> Option<u64> {
    let words = case.strip_suffix(" decisions").or_else(|| case.strip_suffix(" decision"))?;
    let many: u64 = words.rsplit(' ').next()?.replace(',', "").parse().ok()?;
    (many > 0).then(|| figure.div_ceil(many))
}

/// One figure per case, in the program's order.
pub(super) fn measure(
    unit: Unit,
    program: &Path,
    environment: &[(String, String)],
) -> Result<Figures> {
    let cases = output(Command::new(program).arg("--list"))?;
    let cases = String::from_utf8_lossy(&cases.stdout);
    // A program without cases would match any figures.
    ensure!(!cases.trim().is_empty(), "{} names no cases", program.display());
    let valgrind = (unit == Unit::Instructions).then(Valgrind::find_or_unpack).transpose()?;
    let figure = |case: &str| {
        if let Some(valgrind) = &valgrind {
            // Subtracting a count of zero runs excludes the preparation.
            let count = |times| instructions(valgrind, program, case, times);
            return Ok((count(RUNS)?.saturating_sub(count(0)?)) / RUNS);
        }
        let mut command = Command::new(program);
        let output = output(command.arg(case).envs(environment.iter().cloned()))?;
        let figure = String::from_utf8_lossy(&output.stdout);
        figure.trim().parse().with_context(|| format!("{figure:?} is not a number"))
    };
    let each = cases.lines().map(|case| {
        let figure: Result<u64> = figure(case);
        Ok((case.to_owned(), figure.with_context(|| format!("measuring `{case}` failed"))?))
    });
    each.collect()
}

/// The output of a successful program; otherwise an error with the last line of its standard error.
fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(cannot_run(command))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{command:?} failed ({}: {last})", output.status);
    Ok(output)
}

fn instructions(valgrind: &Valgrind, program: &Path, case: &str, times: u64) -> Result<u64> {
    let counts = tempfile::NamedTempFile::new()?;
    let mut command = valgrind.command("callgrind");
    command.arg(format!("--callgrind-out-file={}", counts.path().display()));
    output(command.arg(program).args([case, &times.to_string()]))?;
    let text = fs::read_to_string(counts.path())?;
    let total = |line: &str| {
        let sum = line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: "))?;
        sum.split_whitespace().next()?.parse().ok()
    };
    text.lines().find_map(total).context("callgrind counted nothing")
}

/// The figures and their limits as the page shows them.
pub(super) fn text(unit: Unit, figures: &Figures, limits: &[Limit]) -> String {
    let unit = match unit {
        Unit::Instructions => "instructions",
        Unit::BytesPerResource => "bytes per resource",
        Unit::Bytes => "bytes",
    };
    let row = |(case, figure): &(String, u64)| format!("| {case} | {} |\n", grouped(*figure));
    let rows: String = figures.iter().map(row).collect();
    let lines = limits.iter().flat_map(|limit| ["\n".to_owned(), limit.line(figures)]);
    let lines: String = lines.collect();
    format!("| case | {unit} |\n|---|---:|\n{rows}{lines}")
}

/// Every problem: missed limits, regressed cases, cases without a committed figure, and committed cases that no longer
/// exist.
pub(super) fn regressions(committed: &str, figures: &Figures, limits: &[Limit]) -> Vec<String> {
    let known: Vec<(&str, u64)> = rows(committed)
        .filter_map(|row| Some((*row.first()?, row.get(1)?.replace(',', "").parse().ok()?)))
        .collect();
    let mut problems = Vec::new();
    for (case, figure) in figures {
        match known.iter().find(|(known, _)| known == case) {
            None => problems.push(format!("`{case}` has no committed figure")),
            Some((_, before)) if *figure > before + before * REGRESSION_PERCENT / 100 => {
                let (now, before) = (grouped(*figure), grouped(*before));
                problems.push(format!("`{case}` was {before} and is {now}"));
            }
            Some(_) => {}
        }
    }
    let gone = known.iter().filter(|(known, _)| !figures.iter().any(|(case, _)| case == known));
    problems.extend(gone.map(|(case, _)| format!("`{case}` is no longer measured")));
    problems
        .extend(limits.iter().map(|limit| limit.line(figures)).filter(|line| line.contains("**")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case<'a> = &'a [(&'a str, u64)];

    fn figures(figures: Case<'_>) -> Figures {
        figures.iter().map(|(case, figure)| ((*case).to_owned(), *figure)).collect()
    }

    #[test]
    fn limit_with_several_cases_judges_the_worst() {
        let (decision, heap) =
            (Limit::InstructionsPerDecision(100), Limit::BytesPerResource(1_024, "heap"));
        let rows: [(&Limit, Case<'_>, &str); 8] = [
            (
                &decision,
                &[("Pending, 48 decisions", 4_800), ("Ready, 10 decisions", 20)],
                "met, 100",
            ),
            (&decision, &[("Pending, 48 decisions", 4_801)], "**missed**, 101"),
            (&decision, &[("all 1,024 decisions", 2_048), ("Failed, 1 decision", 7)], "met, 7"),
            (&decision, &[("Ready, 1 decision", 2), ("Failed", 7)], "**missed**, not measured"),
            (&decision, &[], "**missed**, not measured"),
            (&heap, &[("heap, of 9", 1_024), ("resident", 99_999)], "met, 1,024"),
            (&heap, &[("heap, of 9", 1_025)], "**missed**, 1,025"),
            (&heap, &[("resident with 9", 1)], "**missed**, not measured"),
        ];
        for (limit, of, expected) in rows {
            let line = limit.line(&figures(of));
            assert!(line.ends_with(&format!(": {expected}\n")), "{of:?}: {line}");
        }
    }

    #[test]
    fn figure_over_five_percent_or_its_limit_is_a_regression() {
        let limits = [Limit::BytesPerResource(1_050, "")];
        let page = text(Unit::Bytes, &figures(&[("one", 1_000), ("two", 40)]), &limits);
        let gone = "`two` is no longer measured";
        let missed = "- at most 1,050 bytes per resource: **missed**, 1,051\n";
        let rows: [(Case<'_>, &[&str]); 3] = [
            (&[("one", 1_050), ("two", 10)], &[]),
            (
                &[("one", 1_051), ("two", 43)],
                &["`one` was 1,000 and is 1,051", "`two` was 40 and is 43", missed],
            ),
            (&[("three", 1), ("one", 1)], &["`three` has no committed figure", gone]),
        ];
        for (of, expected) in rows {
            assert_eq!(regressions(&page, &figures(of), &limits), expected, "{of:?}");
        }
    }
}
