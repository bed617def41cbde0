//! The check `mutations`: builds every mutation patch and runs the tests that must detect it. None may survive.
//!
//! The same tests must first pass on the unchanged product. A build failure, a crash and a timeout do not count as a
//! catch and fail the run.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;

use super::lab::{Lab, Verdict};
use super::scratch::Scratch;
use super::variant::{self, Catch, Variant};
use crate::workspace::Workspace;

/// The number of cores of a small machine: one lab compiles while the other waits for servers.
const LABS: usize = 2;

/// Runs the patches whose name contains one of the filters; without filters, all that no interrupted run has already
/// caught. Returns their number, and a line per survivor.
pub(super) fn run(
    workspace: &Workspace,
    filters: &[String],
    servers: &[(String, String)],
) -> Result<(usize, Vec<String>)> {
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|it| name.contains(it));
    let (mut left, mut survived) = (Vec::new(), Vec::new());
    for (name, variant) in variant::all(workspace.root())? {
        match variant {
            Ok(variant) if wanted(&name) => left.push(variant),
            Ok(_) => {}
            Err(problem) => survived.push(format!("{name}: {problem}")),
        }
    }
    let all = left.len();
    let labs =
        (0..LABS).map(|number| Ok(Lab { scratch: Scratch::of(workspace, number)?, servers }));
    let labs: Vec<_> = labs.collect::<Result<_>>()?;
    // The names of caught patches, valid for exactly these files: the same test would fail in the same way.
    let digest = labs[0].scratch.digest()?;
    let record = workspace.target().join(format!("mutations/caught-{digest}"));
    let caught = fs::read_to_string(&record).unwrap_or_default();
    // An explicitly named patch runs again.
    left.retain(|it| !filters.is_empty() || caught.lines().all(|name| name != it.name));
    if left.len() < all {
        let (known, record) = (all - left.len(), record.display());
        println!("skipping {known} of {all} mutation patches, which {record} lists as caught");
    }
    // Patches of the same file are adjacent, so that fewer crates are rebuilt.
    left.sort_by(|one, other| one.edits[0].path.cmp(&other.edits[0].path));
    let labs = &labs[..left.len().clamp(1, LABS)];
    survived.extend(sound(labs, &left)?);
    let is_sound = survived.is_empty();
    let note = |variant: &Variant| {
        let file = fs::File::options().create(true).append(true).open(&record);
        let noted = file.and_then(|mut file| writeln!(file, "{}", variant.name));
        if is_sound { noted.with_context(cannot("write", &record)) } else { Ok(()) }
    };
    survived.extend(try_all(labs, &left, note)?);
    if survived.is_empty() && filters.is_empty() && record.exists() {
        // The run was complete, so the record is no longer needed.
        fs::remove_file(&record).with_context(cannot("remove", &record))?;
    }
    Ok((all, survived))
}

/// Runs every test on the unchanged product; returns the failures.
fn sound(labs: &[Lab<'_>], variants: &[Variant]) -> Result<Vec<String>> {
    // A passing test prints no message.
    let catches = variants.iter().flat_map(|variant| variant.catches.iter().cloned());
    let catches: BTreeSet<_> = catches.map(|catch| Catch { saying: None, ..catch }).collect();
    let Some((first, others)) = labs.split_first() else { return Ok(Vec::new()) };
    let Some(built) = first.build(catches.iter().map(|catch| catch.suite.as_str()))? else {
        return Ok(vec!["the unchanged product does not build".to_owned()]);
    };
    others.iter().try_for_each(|lab| lab.scratch.learn_from(&first.scratch))?;
    let mut problems = Vec::new();
    for catch in &catches {
        let (verdict, output) = first.run_test(&built, catch)?;
        if verdict != Verdict::Passed {
            println!("{output}");
            problems.push(format!("{catch} on the unchanged product: {verdict:?}"));
        }
    }
    Ok(problems)
}

/// Distributes the patches over the labs and records the caught ones. Returns the survivors.
fn try_all(
    labs: &[Lab<'_>],
    variants: &[Variant],
    note: impl Fn(&Variant) -> Result<()> + Sync,
) -> Result<Vec<String>> {
    let queue = Mutex::new(variants.iter());
    let work = |lab: &Lab<'_>| {
        let mut survived = Vec::new();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(variant) = next else { return Ok(survived) };
            let problems = lab.try_out(variant)?;
            let word = if problems.is_empty() { "caught" } else { "SURVIVED" };
            println!("{word} {}", variant.name);
            if problems.is_empty() {
                note(variant)?;
            }
            survived.extend(problems);
        }
    };
    thread::scope(|scope| {
        let work = &work;
        let busy: Vec<_> = labs.iter().map(|lab| scope.spawn(move || work(lab))).collect();
        let mut survived = Vec::new();
        for lab in busy {
            let part: Result<_> = lab.join().unwrap_or_else(|panic| resume_unwind(panic));
            survived.extend(part?);
        }
        Ok(survived)
    })
}
