//! `cargo xtask prove`: six checks that search for violations of the guarantees, and their results.
//!
//! Five checks are tests that report their case count in lines with the mark `proof: `; `--nightly` sets their big
//! counts. The sixth applies mutation patches and expects a test to fail; without `--nightly` it only verifies that the
//! patches apply.

mod lab;
pub(crate) mod page;
mod mutations;
mod scratch;
pub(crate) mod variant;

use std::io;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::servers::SharedServers;
use broker_test_servers::tools::{Tools, cloud_init_schema};

use crate::cli::{ProveArguments, What};
use crate::test::{NIGHTLY, Suite, binaries, start, watch};
use crate::tidy;
use crate::workspace::Workspace;
use page::{IN_FULL, Row, SHARE};

/// The mark of a line with a case count.
const MARK: &str = "proof: ";

/// A check, its title, and its tests: target and part of the name.
type Check = (What, &'static str, &'static [(&'static str, &'static str)]);

/// Every check, in the order of the report.
pub(crate) const CHECKS: [Check; 6] = [
    (What::Model, "model check", &[("proof", "model::")]),
    (What::Simulation, "simulation", &[("proof", "simulation::")]),
    (What::Matrix, "fault matrix", &[("proof", "matrix::")]),
    (What::Oracle, "differential oracle", &[("servers", "servers::oracle::")]),
    (What::SecretLeaks, "secret leaks", &[("proof", "secret_leaks::"), ("servers", "::canary::")]),
    (What::Mutations, "mutations", &[]),
];

/// Runs the selected checks, prints a table and updates the page.
pub(crate) fn run(arguments: &ProveArguments) -> Result<()> {
    let ProveArguments { what, nightly, variants } = arguments;
    let wanted: Vec<_> =
        CHECKS.into_iter().filter(|(it, ..)| what.is_empty() || what.contains(it)).collect();
    let needs = |target| wanted.iter().any(|check| check.2.iter().any(|(name, _)| *name == target));
    let workspace = Workspace::load()?;
    // Without these, the check only verifies that the patches apply.
    let builds_variants = *nightly || !variants.is_empty();
    let breaks = builds_variants && wanted.iter().any(|(what, ..)| *what == What::Mutations);
    let servers = (needs("servers") || breaks).then(|| {
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
    let (mut report, mut complaints) = (Vec::new(), Vec::new());
    for selected in wanted {
        let (what, title, _) = selected;
        let (cases, found) = if what == What::Mutations {
            let (tried, how, survived) = if builds_variants {
                // Mutation patches must be caught by the normal counts.
                let (tried, survived) = mutations::run(&workspace, variants, &environment)?;
                (tried, "all caught", survived)
            } else {
                let (variants, unfit) = tidy::variants_fit(workspace.root())?;
                (variants, "all apply cleanly", unfit)
            };
            let found = survived.len();
            complaints.extend(survived);
            (format!("{tried} mutation patches, {how}"), found)
        } else {
            check(&selected, &tests, &environment, *nightly)?
        };
        report.push(format!("{title}: {found} found in {cases}"));
        if found > 0 {
            complaints.push(format!("{title}: {found} found"));
        } else if variants.is_empty() {
            // Written at once: the next check may take all night and may be interrupted.
            let table = if *nightly { IN_FULL } else { SHARE };
            let row = Row { what: title.to_owned(), cases, found: found.to_string() };
            page::update(workspace.root(), table, row)?;
        }
    }
    drop(servers);
    println!("\n{}", report.join("\n"));
    ensure!(complaints.is_empty(), "the tests failed: {}", complaints.join("; "));
    Ok(())
}

/// Runs the tests of one check; returns its cases and the number of failed tests.
fn check(
    (_, title, checks): &Check,
    tests: &[Suite],
    environment: &[(String, String)],
    nightly: bool,
) -> Result<(String, usize)> {
    let (mut cases, mut found) = (Vec::new(), 0);
    for (target, part) in *checks {
        let suite = tests.iter().find(|suite| suite.tier.name == *target);
        let mut command =
            suite.with_context(|| format!("there is no test target {target}"))?.command();
        command.args([part, "--nocapture"]).envs(environment.iter().cloned());
        command.envs(nightly.then_some((NIGHTLY, "1")));
        let (outcome, text) = watch(&mut command, &mut io::stdout())?;
        ensure!(outcome.passed + outcome.failed > 0, "{title}: no test {target} {part} was run");
        // The test harness may have written to the same line before the mark.
        let reported = text.lines().filter_map(|line| Some(line.split_once(MARK)?.1.to_owned()));
        let mut reported: Vec<_> = reported.collect();
        reported.sort();
        cases.extend(reported);
        found += outcome.failed.max(usize::from(!outcome.exited_well));
    }
    tally(title, &cases, found)
}

/// The cases in one line. A pass without a case count is an error: the tests may have tried nothing.
fn tally(what: &str, cases: &[String], found: usize) -> Result<(String, usize)> {
    let has_cases = !cases.is_empty() || found > 0;
    ensure!(has_cases, "{what}: no test reported its cases in a line with `{MARK}`");
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
