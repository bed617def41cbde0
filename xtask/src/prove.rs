//! `cargo xtask prove`: six ways to look for a promise that does not hold, and what they came to.
//!
//! Five of them are tests, which say how much they tried in lines that begin with `proof: `; by night they run with
//! their big counts. The sixth breaks the product on purpose and looks whether anybody notices; by day it only checks
//! that it still could.

mod lab;
pub(crate) mod page;
mod sabotage;
mod scratch;
pub(crate) mod variant;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::cannot_run;
use broker_test_servers::progress::{elapsed, step, to_stderr};
use broker_test_servers::servers::SharedServers;
use broker_test_servers::tools::{Tools, provide_documents};

use crate::cli::{ProveArguments, What};
use crate::test::{NIGHTLY, Outcome, Suite, binaries, start};
use crate::tidy;
use crate::workspace::Workspace;
use page::{Row, Table};

/// What a check says when it is done.
const MARK: &str = "proof: ";

/// A way, what it is called, and its tests: the target, and a part of their names.
type Way = (What, &'static str, &'static [(&'static str, &'static str)]);

/// Every way, in the order in which they are told.
const WAYS: [Way; 6] = [
    (What::Model, "model check", &[("proof", "model::")]),
    (What::Simulation, "simulation", &[("proof", "simulation::")]),
    (What::Matrix, "fault matrix", &[("proof", "matrix::")]),
    (What::Oracle, "differential oracle", &[("servers", "servers::oracle::")]),
    (What::Canaries, "canaries", &[("proof", "canaries::"), ("servers", "::canary::")]),
    (What::Sabotage, "sabotage", &[]),
];

fn needs((_, _, tests): &Way, target: &str) -> bool {
    tests.iter().any(|(name, _)| *name == target)
}

/// What each way is called.
pub(crate) fn titles() -> impl Iterator<Item = &'static str> {
    WAYS.into_iter().map(|(_, title, _)| title)
}

/// Runs what is wanted, prints a table and writes it down: by day what a share of each way came to, by night all of it.
pub(crate) fn run(arguments: &ProveArguments) -> Result<()> {
    let ProveArguments { what, nightly, variants, .. } = arguments;
    let wanted: Vec<_> =
        WAYS.into_iter().filter(|(it, ..)| what.is_empty() || what.contains(it)).collect();
    let workspace = Workspace::load()?;
    let servers = servers(&wanted, arguments)?;
    let mut environment = servers.as_ref().map(SharedServers::env).unwrap_or_default();
    if *nightly {
        environment.push((NIGHTLY.to_owned(), "1".to_owned()));
    }

    let mut rows = Vec::new();
    let mut complaints = Vec::new();
    let tests = tests_of(&workspace, &wanted, *nightly)?;
    let table = if *nightly { Table::InFull } else { Table::Share };
    for it in wanted {
        let started = Instant::now();
        let (what, title, _) = it;
        let (cases, found) = if what == What::Sabotage {
            let (cases, survived) = break_it(&workspace, arguments, &environment)?;
            let found = survived.len();
            complaints.extend(survived);
            (cases, found)
        } else {
            check(&it, &tests, &environment)?
        };
        let row = Row::new(title, cases, found);
        if found > 0 {
            complaints.push(format!("{title}: {found} found"));
        } else if variants.is_empty() {
            // At once: the next way may take all night, and may be interrupted.
            page::update(workspace.root(), table, row.clone())?;
        }
        rows.push((row, started.elapsed()));
    }
    drop(servers);
    print_table(&rows);
    ensure!(complaints.is_empty(), "the tests failed: {}", complaints.join("; "));
    Ok(())
}

/// Whether broken variants are built; otherwise they are only looked at.
fn builds_variants(arguments: &ProveArguments) -> bool {
    arguments.nightly || !arguments.variants.is_empty()
}

/// The sixth way: what was tried, and which variants nobody noticed.
fn break_it(
    workspace: &Workspace,
    arguments: &ProveArguments,
    environment: &[(String, String)],
) -> Result<(String, Vec<String>)> {
    if !builds_variants(arguments) {
        let (variants, unfit) = tidy::variants_fit(workspace.root())?;
        return Ok((format!("{variants} broken variants, of which each fits"), unfit));
    }
    // A variant is caught by what the normal test run tries.
    let environment: Vec<_> =
        environment.iter().filter(|(name, _)| name != NIGHTLY).cloned().collect();
    let (tried, survived) = sabotage::run(workspace, arguments, &environment)?;
    Ok((format!("{tried} broken variants, each caught"), survived))
}

/// The tests of what is wanted. What runs in memory and for long is optimised.
fn tests_of(workspace: &Workspace, wanted: &[Way], nightly: bool) -> Result<Vec<Suite>> {
    let mut tests = Vec::new();
    if nightly && wanted.iter().any(|it| needs(it, "proof")) {
        tests.extend(binaries(workspace, &["--profile", "proof", "--test", "proof"])?);
    }
    if wanted.iter().any(|it| needs(it, "servers") || (!nightly && needs(it, "proof"))) {
        tests.extend(binaries(workspace, &[])?);
    }
    Ok(tests)
}

/// The servers, if something needs them.
fn servers(wanted: &[Way], arguments: &ProveArguments) -> Result<Option<SharedServers>> {
    let needed =
        |it: &Way| needs(it, "servers") || (it.0 == What::Sabotage && builds_variants(arguments));
    if !wanted.iter().any(needed) {
        return Ok(None);
    }
    let tools = Tools::find_or_build(&to_stderr)?;
    provide_documents(&to_stderr)?;
    start(&tools).map(Some)
}

/// Runs the tests of one way: what they tried, and how many of them found something.
fn check(
    (_, title, checks): &Way,
    tests: &[Suite],
    environment: &[(String, String)],
) -> Result<(String, usize)> {
    let (mut cases, mut found) = (Vec::new(), 0);
    for (target, part) in *checks {
        let suite = tests.iter().find(|suite| suite.tier.name == *target);
        let mut command = suite.with_context(|| format!("there are no tests {target}"))?.command();
        command.args([part, "--nocapture"]).envs(environment.iter().cloned());
        let what = format!("{title}: {target} {part}");
        let (outcome, said) = step(&to_stderr, &what, || listen(&mut command))?;
        cases.extend(said);
        ensure!(outcome.passed + outcome.failed > 0, "{what}: no test was run");
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

/// Shows what a test says, and keeps what it says of itself.
fn listen(command: &mut Command) -> Result<(Outcome, Vec<String>)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(cannot_run(command))?;
    let (mut text, mut said) = (String::new(), Vec::new());
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
        let line = line?;
        println!("{line}");
        // The harness may have begun a line of its own.
        said.extend(line.split_once(MARK).map(|(_, cases)| cases.to_owned()));
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait()?;
    said.sort();
    Ok((Outcome::of(&text, status), said))
}

fn print_table(rows: &[(Row, Duration)]) {
    println!("\n{:20} {:>5} {:>8}  cases", "what", "found", "time");
    for (row, time) in rows {
        println!("{:20} {:>5} {:>8}  {}", row.what, row.found, elapsed(*time), row.cases);
    }
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
