//! Sabotage: every broken variant is built, and the tests that should notice are run. None may survive.
//!
//! A catch proves something only if the same test passes on what is not broken, so that is tried first. A variant that
//! does not build is no catch, and neither is a test that crashes or never ends: each of them fails the run.

use std::collections::{BTreeSet, VecDeque};
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::lab::{Lab, Verdict};
use super::record::Record;
use super::scratch::Scratch;
use super::variant::{self, Catch, Variant};
use crate::cli::ProveArguments;
use crate::error::TaskError;
use crate::workspace::Workspace;
use broker_test_servers::progress::elapsed;

/// As many as a small machine has cores: what compiles and links for one, and waits for servers, leaves room for
/// another.
const LABS: usize = 2;

/// What became of the variants.
pub(super) struct Caught {
    /// Those that were tried, in this run or before the last one was interrupted.
    pub(super) variants: Vec<Variant>,
    /// Those that were not caught by each test that they name, and why.
    pub(super) survived: Vec<String>,
}

/// Every variant whose name contains one of the filters; without any, all of them that were not caught before the last
/// run was interrupted.
pub(super) fn run(
    workspace: &Workspace,
    arguments: &ProveArguments,
    servers: &[(String, String)],
) -> Result<Caught, TaskError> {
    let filters = &arguments.variants;
    let mut caught = wanted(workspace, filters)?;
    let labs = labs(workspace, servers)?;
    let mut record = Record::of(workspace, &labs[0].scratch)?;
    if arguments.afresh {
        record.forget()?;
    }
    // Whoever names a variant wants to see it tried.
    let is_known = |variant: &Variant| filters.is_empty() && record.has(variant);
    let (known, mut left): (Vec<_>, Vec<_>) = caught.variants.drain(..).partition(is_known);
    if !known.is_empty() {
        let (known, all) = (known.len(), known.len() + left.len());
        println!(
            "{known} of {all} variants were caught on these very files and are not tried again"
        );
    }
    // Next to each other what is in the same file, so that little is built twice.
    left.sort_by(|one, other| one.edits[0].path.cmp(&other.edits[0].path));
    let labs = &labs[..left.len().clamp(1, LABS)];
    caught.survived.extend(sound(labs, &left)?);
    let may_count = caught.survived.is_empty();
    caught.survived.extend(try_all(labs, &left, |variant| {
        if may_count { record.add(variant) } else { Ok(()) }
    })?);
    caught.variants = known.into_iter().chain(left).collect();
    if caught.survived.is_empty() && filters.is_empty() {
        // That run was not interrupted.
        record.forget()?;
    }
    Ok(caught)
}

/// The variants that are asked for, and what is wrong with patches.
fn wanted(workspace: &Workspace, filters: &[String]) -> Result<Caught, TaskError> {
    let mut caught = Caught { variants: Vec::new(), survived: Vec::new() };
    for (name, variant) in variant::all(workspace.root())? {
        let wanted = filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
        match variant {
            Ok(variant) if wanted => caught.variants.push(variant),
            Ok(_) => {}
            Err(problem) => caught.survived.push(format!("{name}: {problem}")),
        }
    }
    Ok(caught)
}

fn labs<'a>(
    workspace: &Workspace,
    servers: &'a [(String, String)],
) -> Result<Vec<Lab<'a>>, TaskError> {
    (0..LABS).map(|number| Ok(Lab { scratch: Scratch::of(workspace, number)?, servers })).collect()
}

/// Every test that should notice something passes where nothing is broken; otherwise, what is wrong. Meanwhile the
/// other labs get ready.
fn sound(labs: &[Lab<'_>], variants: &[Variant]) -> Result<Vec<String>, TaskError> {
    // What passes has nothing to say.
    let catches = variants.iter().flat_map(|variant| variant.catches.iter().cloned());
    let catches: BTreeSet<_> = catches.map(|catch| Catch { saying: None, ..catch }).collect();
    let suites = || catches.iter().map(|catch| catch.suite.as_str());
    let Some((first, others)) = labs.split_first() else { return Ok(Vec::new()) };
    let Some(built) = first.build(suites())? else {
        return Ok(vec!["what is not broken does not build".to_owned()]);
    };
    thread::scope(|scope| {
        let ready = scope.spawn(|| {
            others.iter().try_for_each(|lab| {
                lab.scratch.learn_from(&first.scratch)?;
                lab.build(suites()).map(|_| ())
            })
        });
        let mut problems = Vec::new();
        for catch in &catches {
            let verdict = first.run_test(&built, catch)?;
            if verdict != Verdict::Passed {
                problems.push(format!("{catch} on what is not broken: {verdict:?}"));
            }
        }
        ready.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(problems)
    })
}

/// Tries every variant in whichever lab is free, and notes which were caught. The answer is what is wrong with the
/// others.
fn try_all(
    labs: &[Lab<'_>],
    variants: &[Variant],
    note: impl FnMut(&Variant) -> Result<(), TaskError> + Send,
) -> Result<Vec<String>, TaskError> {
    // From both ends, so that neighbours stay with each other.
    let queue = Mutex::new(variants.iter().collect::<VecDeque<_>>());
    let note = Mutex::new(note);
    let work = |number: usize, lab: &Lab<'_>| {
        let mut survived = Vec::new();
        loop {
            let taken = {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                if number == 0 { queue.pop_front() } else { queue.pop_back() }
            };
            let Some(variant) = taken else { return Ok(survived) };
            let started = Instant::now();
            let problems = lab.try_out(variant)?;
            let time = elapsed(started.elapsed());
            let word = if problems.is_empty() { "caught" } else { "SURVIVED" };
            println!("{word} {} ({time})", variant.name);
            if problems.is_empty() {
                (note.lock().unwrap_or_else(PoisonError::into_inner))(variant)?;
            }
            survived.extend(problems);
        }
    };
    thread::scope(|scope| {
        let work = &work;
        let busy: Vec<_> = (labs.iter().enumerate())
            .map(|(number, lab)| scope.spawn(move || work(number, lab)))
            .collect();
        let mut survived = Vec::new();
        for lab in busy {
            let part: Result<_, TaskError> =
                lab.join().unwrap_or_else(|panic| resume_unwind(panic));
            survived.extend(part?);
        }
        Ok(survived)
    })
}
