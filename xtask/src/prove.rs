//! `cargo xtask prove`: six checks that search for violations of the guarantees, and their results.
//!
//! Five checks are tests that report their case count in lines with the mark `proof: `; `--nightly` sets their big
//! counts. The sixth applies mutation patches and expects a test to fail; without `--nightly` it only verifies that the
//! patches apply.

mod runner;
pub(crate) mod page;
mod mutations;
mod source_copy;
pub(crate) mod variant;

use std::io;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::servers::SharedServers;
use broker_test_servers::tools::{Tools, cloud_init_schema};

use crate::cli::{ProofCheck, ProveArguments};
use crate::test::{NIGHTLY, Suite, binaries, run_tests, start};
use crate::tidy;
use crate::workspace::Workspace;
use page::{NIGHTLY_TABLE, NORMAL_TABLE, Row};

/// The mark of a line with a case count.
const MARK: &str = "proof: ";

/// A check, its title, and its tests: target and part of the name.
type Check = (ProofCheck, &'static str, &'static [(&'static str, &'static str)]);

/// Every check, in the order of the report.
pub(crate) const CHECKS: [Check; 6] = [
    (ProofCheck::Model, "model check", &[("proof", "model::")]),
    (ProofCheck::Simulation, "simulation", &[("proof", "simulation::")]),
    (ProofCheck::Matrix, "fault matrix", &[("proof", "matrix::")]),
    (ProofCheck::Oracle, "differential oracle", &[("servers", "servers::oracle::")]),
    (
        ProofCheck::SecretLeaks,
        "secret leaks",
        &[("proof", "secret_leaks::"), ("servers", "::secret_leaks::")],
    ),
    (ProofCheck::Mutations, "mutations", &[]),
];

/// Runs the selected checks, prints a table and updates the page.
pub(crate) fn run(arguments: &ProveArguments) -> Result<()> {
    let ProveArguments { checks, nightly, variants } = arguments;
    let selected: Vec<_> = CHECKS
        .into_iter()
        .filter(|(check, ..)| checks.is_empty() || checks.contains(check))
        .collect();
    let needs =
        |target| selected.iter().any(|check| check.2.iter().any(|(name, _)| *name == target));
    let workspace = Workspace::load()?;
    // Otherwise the check `mutations` only verifies that the patches apply.
    let builds_variants = *nightly || !variants.is_empty();
    let runs_mutations =
        builds_variants && selected.iter().any(|(check, ..)| *check == ProofCheck::Mutations);
    let servers = (needs("servers") || runs_mutations).then(|| {
        let tools = Tools::find_or_build()?;
        cloud_init_schema()?;
        start(&tools)
    });
    let servers = servers.transpose()?;
    let environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();

    // Long in-memory checks run optimised.
    let mut tests = Vec::new();
    if *nightly && needs("proof") {
        tests.extend(binaries(&workspace, &["--profile", "proof", "--test", "proof"])?);
    }
    if needs("servers") || (!nightly && needs("proof")) {
        tests.extend(binaries(&workspace, &[])?);
    }
    let (mut report, mut problems) = (Vec::new(), Vec::new());
    for selected_check in selected {
        let (kind, title, _) = selected_check;
        let (cases, found) = if kind == ProofCheck::Mutations {
            let (tried, result, survived) = if builds_variants {
                // Mutation patches must be caught by the normal counts.
                let (tried, survived) = mutations::run(&workspace, variants, &environment)?;
                (tried, "all caught", survived)
            } else {
                let (patches, not_applying) = tidy::check_patches(workspace.root())?;
                (patches, "all apply cleanly", not_applying)
            };
            let found = survived.len();
            problems.extend(survived);
            (format!("{tried} mutation patches, {result}"), found)
        } else {
            run_check(&selected_check, &tests, &environment, *nightly)?
        };
        report.push(format!("{title}: {found} found in {cases}"));
        if found > 0 {
            problems.push(format!("{title}: {found} found"));
        } else if variants.is_empty() {
            // Written now, because the next check may take all night or be interrupted.
            let table = if *nightly { NIGHTLY_TABLE } else { NORMAL_TABLE };
            let row = Row { check: title.to_owned(), cases, found: found.to_string() };
            page::update(workspace.root(), table, row)?;
        }
    }
    drop(servers);
    println!("\n{}", report.join("\n"));
    ensure!(problems.is_empty(), "the tests failed: {}", problems.join("; "));
    Ok(())
}

/// Runs the tests of one check; returns its cases and the number of failed tests.
fn run_check(
    (_, title, test_groups): &Check,
    tests: &[Suite],
    environment: &[(String, String)],
    nightly: bool,
) -> Result<(String, usize)> {
    let (mut cases, mut found) = (Vec::new(), 0);
    for (target, part) in *test_groups {
        let suite = tests.iter().find(|suite| suite.tier.name == *target);
        let mut command =
            suite.with_context(|| format!("the test target {target} does not exist"))?.command();
        command.args([part, "--nocapture"]).envs(environment.iter().cloned());
        command.envs(nightly.then_some((NIGHTLY, "1")));
        let (outcome, text) = run_tests(&mut command, &mut io::stdout())?;
        ensure!(outcome.passed + outcome.failed > 0, "{title}: no test of {target} matches {part}");
        // The test harness may have written to the same line before the mark.
        let reported = text.lines().filter_map(|line| Some(line.split_once(MARK)?.1.to_owned()));
        let mut reported: Vec<_> = reported.collect();
        reported.sort();
        cases.extend(reported);
        found += outcome.failed.max(usize::from(!outcome.exited_successfully));
    }
    tally(title, &cases, found)
}

/// The cases in one line. A pass without a case count is an error, because the tests may have tried nothing.
fn tally(title: &str, cases: &[String], found: usize) -> Result<(String, usize)> {
    let has_cases = !cases.is_empty() || found > 0;
    ensure!(has_cases, "{title}: no test reported its cases in a line with `{MARK}`");
    Ok((cases.join(", "), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_tests_without_a_case_count_are_an_error() {
        let reported = ["3 worlds".to_owned(), "2 cells".to_owned()];
        assert_eq!(
            tally("fault matrix", &reported, 0).unwrap(),
            ("3 worlds, 2 cells".to_owned(), 0)
        );
        assert_eq!(tally("fault matrix", &[], 1).unwrap(), (String::new(), 1));
        let error = tally("fault matrix", &[], 0).unwrap_err().to_string();
        assert!(error.contains("fault matrix") && error.contains("proof: "), "{error}");
    }
}
