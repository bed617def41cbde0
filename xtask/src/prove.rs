//! `cargo xtask prove`: six ways to look for a promise that does not hold, and what they came to.
//!
//! Five of them are tests, which say how much they tried in lines that begin with `proof: `; by night they run with
//! their big counts. The sixth breaks the product on purpose and looks whether anybody notices; by day it only checks
//! that it still could.

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

/// What a check says when it is done.
const MARK: &str = "proof: ";

/// A way, what it is called, and its tests: the target, and a part of their names.
type Way = (What, &'static str, &'static [(&'static str, &'static str)]);

/// Every way, in the order in which they are told.
pub(crate) const WAYS: [Way; 6] = [
    (What::Model, "model check", &[("proof", "model::")]),
    (What::Simulation, "simulation", &[("proof", "simulation::")]),
    (What::Matrix, "fault matrix", &[("proof", "matrix::")]),
    (What::Oracle, "differential oracle", &[("servers", "servers::oracle::")]),
    (What::SecretLeaks, "secret_leaks", &[("proof", "secret_leaks::"), ("servers", "::canary::")]),
    (What::Mutations, "mutations", &[]),
];

/// Runs what is wanted, prints a table and writes it down: by day what a share of each way came to, by night all of it.
pub(crate) fn run(arguments: &ProveArguments) -> Result<()> {
    let ProveArguments { what, nightly, variants } = arguments;
    let wanted: Vec<_> =
        WAYS.into_iter().filter(|(it, ..)| what.is_empty() || what.contains(it)).collect();
    let needs = |target| wanted.iter().any(|way| way.2.iter().any(|(name, _)| *name == target));
    let workspace = Workspace::load()?;
    // Otherwise broken variants are only looked at.
    let builds_variants = *nightly || !variants.is_empty();
    let breaks = builds_variants && wanted.iter().any(|(what, ..)| *what == What::Mutations);
    let servers = (needs("servers") || breaks).then(|| {
        let tools = Tools::find_or_build()?;
        cloud_init_schema()?;
        start(&tools)
    });
    let servers = servers.transpose()?;
    let environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();

    // What runs in memory and for long is optimised.
    let mut tests = Vec::new();
    if *nightly && needs("proof") {
        tests.extend(binaries(&workspace, &["--profile", "proof", "--test", "proof"])?);
    }
    if needs("servers") || (!nightly && needs("proof")) {
        tests.extend(binaries(&workspace, &[])?);
    }
    let (mut told, mut complaints) = (Vec::new(), Vec::new());
    for way in wanted {
        let (what, title, _) = way;
        let (cases, found) = if what == What::Mutations {
            let (tried, how, survived) = if builds_variants {
                // A variant is caught by what the normal test run tries.
                let (tried, survived) = mutations::run(&workspace, variants, &environment)?;
                (tried, "each caught", survived)
            } else {
                let (variants, unfit) = tidy::variants_fit(workspace.root())?;
                (variants, "of which each fits", unfit)
            };
            let found = survived.len();
            complaints.extend(survived);
            (format!("{tried} broken variants, {how}"), found)
        } else {
            check(&way, &tests, &environment, *nightly)?
        };
        told.push(format!("{title}: {found} found in {cases}"));
        if found > 0 {
            complaints.push(format!("{title}: {found} found"));
        } else if variants.is_empty() {
            // At once: the next way may take all night, and may be interrupted.
            let table = if *nightly { IN_FULL } else { SHARE };
            let row = Row { what: title.to_owned(), cases, found: found.to_string() };
            page::update(workspace.root(), table, row)?;
        }
    }
    drop(servers);
    println!("\n{}", told.join("\n"));
    ensure!(complaints.is_empty(), "the tests failed: {}", complaints.join("; "));
    Ok(())
}

/// Runs the tests of one way: what they tried, and how many of them found something.
fn check(
    (_, title, checks): &Way,
    tests: &[Suite],
    environment: &[(String, String)],
    nightly: bool,
) -> Result<(String, usize)> {
    let (mut cases, mut found) = (Vec::new(), 0);
    for (target, part) in *checks {
        let suite = tests.iter().find(|suite| suite.tier.name == *target);
        let mut command = suite.with_context(|| format!("there are no tests {target}"))?.command();
        command.args([part, "--nocapture"]).envs(environment.iter().cloned());
        command.envs(nightly.then_some((NIGHTLY, "1")));
        let (outcome, text) = watch(&mut command, &mut io::stdout())?;
        ensure!(outcome.passed + outcome.failed > 0, "{title}: no test {target} {part} was run");
        // The harness may have begun a line of its own.
        let said = text.lines().filter_map(|line| Some(line.split_once(MARK)?.1.to_owned()));
        let mut said: Vec<_> = said.collect();
        said.sort();
        cases.extend(said);
        found += outcome.failed.max(usize::from(!outcome.exited_well));
    }
    tally(title, &cases, found)
}

/// What was tried, in a line. Tests that pass and do not say how much they tried may have tried nothing.
fn tally(what: &str, cases: &[String], found: usize) -> Result<(String, usize)> {
    let said = !cases.is_empty() || found > 0;
    ensure!(said, "{what}: no test said how much it tried, in a line with `{MARK}`");
    Ok((cases.join(", "), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_do_not_say_what_they_tried_prove_nothing() {
        let said = ["3 worlds".to_owned(), "2 cells".to_owned()];
        assert_eq!(tally("fault matrix", &said, 0).unwrap(), ("3 worlds, 2 cells".to_owned(), 0));
        assert_eq!(tally("fault matrix", &[], 1).unwrap(), (String::new(), 1));
        let error = tally("fault matrix", &[], 0).unwrap_err().to_string();
        assert!(error.contains("fault matrix") && error.contains("proof: "), "{error}");
    }
}
