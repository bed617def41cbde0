//! `cargo xtask prove`: six ways to look for a promise that does not hold, and what they came to.
//!
//! Five of them are tests, which say how much they tried in lines that begin with `proof: `; by night they run with
//! their big counts. The sixth breaks the product on purpose and looks whether anybody notices; by day it only checks
//! that it still could.

mod lab;
pub(crate) mod page;
mod record;
mod sabotage;
mod scratch;
pub(crate) mod variant;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::{ProveArguments, What};
use crate::error::TaskError;
use crate::test::{Build, NIGHTLY, Outcome, TestBinary, binaries};
use crate::tidy;
use crate::workspace::{Workspace, spawn_error};
use broker_test_servers::progress::{elapsed, step, to_stderr};
use broker_test_servers::servers::{SharedServers, start_shared};
use broker_test_servers::tools::{Tools, provide_documents};

use page::{Row, Table};

/// What a check says when it is done.
const MARK: &str = "proof: ";

impl What {
    /// Every way, in the order in which they are told.
    const ALL: [Self; 6] =
        [Self::Model, Self::Simulation, Self::Matrix, Self::Oracle, Self::Canaries, Self::Sabotage];

    const fn title(self) -> &'static str {
        match self {
            Self::Model => "model check",
            Self::Simulation => "simulation",
            Self::Matrix => "fault matrix",
            Self::Oracle => "differential oracle",
            Self::Canaries => "canaries",
            Self::Sabotage => "sabotage",
        }
    }

    /// The test target and a part of the names of its tests.
    const fn tests(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Model => &[("proof", "model::")],
            Self::Simulation => &[("proof", "simulation::")],
            Self::Matrix => &[("proof", "matrix::")],
            Self::Oracle => &[("servers", "servers::oracle::")],
            Self::Canaries => &[("proof", "canaries::"), ("servers", "::canary::")],
            Self::Sabotage => &[],
        }
    }

    fn need(self, target: &str) -> bool {
        self.tests().iter().any(|(name, _)| *name == target)
    }
}

/// What each way is called.
pub(crate) fn titles() -> impl Iterator<Item = &'static str> {
    What::ALL.into_iter().map(What::title)
}

/// Runs what is wanted, prints a table and writes it down: by day what a share of each way came to, by night all of it.
pub(crate) fn run(arguments: &ProveArguments) -> Result<(), TaskError> {
    let ProveArguments { what, nightly, variants, .. } = arguments;
    let wanted: Vec<_> =
        What::ALL.into_iter().filter(|it| what.is_empty() || what.contains(it)).collect();
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
        let (cases, found) = if it == What::Sabotage {
            let (cases, survived) = break_it(&workspace, arguments, &environment)?;
            let found = survived.len();
            complaints.extend(survived);
            (cases, found)
        } else {
            check(it, &tests, &environment)?
        };
        let row = Row::new(it.title(), cases, found);
        if found > 0 {
            complaints.push(format!("{}: {found} found", it.title()));
        } else if variants.is_empty() {
            // At once: the next way may take all night, and may be interrupted.
            page::update(workspace.root(), table, row.clone())?;
        }
        rows.push((row, started.elapsed()));
    }
    drop(servers);
    print_table(&rows);
    if complaints.is_empty() { Ok(()) } else { Err(TaskError::Tests { complaints }) }
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
) -> Result<(String, Vec<String>), TaskError> {
    if !builds_variants(arguments) {
        let (variants, unfit) = tidy::variants_fit(workspace.root())?;
        return Ok((format!("{variants} broken variants, of which each fits"), unfit));
    }
    // A variant is caught by what the normal test run tries.
    let environment: Vec<_> =
        environment.iter().filter(|(name, _)| name != NIGHTLY).cloned().collect();
    let caught = sabotage::run(workspace, arguments, &environment)?;
    Ok((format!("{} broken variants, each caught", caught.variants.len()), caught.survived))
}

/// The tests of what is wanted. What runs in memory and for long is optimised.
fn tests_of(
    workspace: &Workspace,
    wanted: &[What],
    nightly: bool,
) -> Result<Vec<TestBinary>, TaskError> {
    let mut tests = Vec::new();
    if nightly && wanted.iter().any(|it| it.need("proof")) {
        tests.extend(binaries(workspace, Build::Proof)?);
    }
    if wanted.iter().any(|it| it.need("servers") || (!nightly && it.need("proof"))) {
        tests.extend(binaries(workspace, Build::Everything)?);
    }
    Ok(tests)
}

/// The servers, if something needs them.
fn servers(
    wanted: &[What],
    arguments: &ProveArguments,
) -> Result<Option<SharedServers>, TaskError> {
    let needed =
        |it: &What| it.need("servers") || (*it == What::Sabotage && builds_variants(arguments));
    if !wanted.iter().any(needed) {
        return Ok(None);
    }
    let tools = Tools::find_or_build(&to_stderr)?;
    provide_documents(&to_stderr)?;
    let what = "starting Postgres, etcd, kube-apiserver and kube-controller-manager";
    Ok(Some(step(&to_stderr, what, || start_shared(&tools, &|_| {}))?))
}

/// Runs the tests of one way: what they tried, and how many of them found something.
fn check(
    it: What,
    tests: &[TestBinary],
    environment: &[(String, String)],
) -> Result<(String, usize), TaskError> {
    let (mut cases, mut found) = (Vec::new(), 0);
    for (target, part) in it.tests() {
        let Some(binary) = tests.iter().find(|binary| binary.target == *target) else {
            let what = format!("looking for the tests of {target}");
            return Err(TaskError::Command { what, how: "there are none".to_owned() });
        };
        let mut command = binary.command();
        command.args([part, "--nocapture"]).envs(environment.iter().cloned());
        let what = format!("{}: {target} {part}", it.title());
        let (outcome, said) = step(&to_stderr, &what, || listen(&mut command))?;
        cases.extend(said);
        if outcome.passed == 0 && outcome.failed == 0 {
            return Err(TaskError::Command { what, how: "no test was run".to_owned() });
        }
        found += outcome.failed.max(usize::from(!outcome.exited_well));
    }
    tally(it, &cases, found)
}

/// What was tried, in a line. Tests that pass and do not say how much they tried may have tried nothing.
fn tally(it: What, cases: &[String], found: usize) -> Result<(String, usize), TaskError> {
    if cases.is_empty() && found == 0 {
        let how = format!("no test said how much it tried, in a line with `{MARK}`");
        return Err(TaskError::Command { what: it.title().to_owned(), how });
    }
    Ok((cases.join(", "), found))
}

/// Shows what a test says, and keeps what it says of itself.
fn listen(command: &mut Command) -> Result<(Outcome, Vec<String>), TaskError> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(spawn_error(command))?;
    let (mut text, mut said) = (String::new(), Vec::new());
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
        let line = line.map_err(spawn_error(command))?;
        println!("{line}");
        // The harness may have begun a line of its own.
        said.extend(line.split_once(MARK).map(|(_, cases)| cases.to_owned()));
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().map_err(spawn_error(command))?;
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
        assert_eq!(tally(What::Matrix, &said, 0).unwrap(), ("3 worlds, 2 cells".to_owned(), 0));
        assert_eq!(tally(What::Matrix, &[], 1).unwrap(), (String::new(), 1));
        let error = tally(What::Matrix, &[], 0).unwrap_err().to_string();
        assert!(error.contains("fault matrix") && error.contains("proof: "), "{error}");
    }
}
