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

use super::runner::{PatchRunner, TestVerdict};
use super::source_copy::SourceCopy;
use super::variant::{self, Detector, MutationPatch};
use crate::workspace::Workspace;

/// The number of cores of a small machine: one runner compiles while the other waits for servers.
const RUNNERS: usize = 2;

/// Runs the patches whose name contains one of the filters; without filters, all that no interrupted run has already
/// caught. Returns their number, and a line per survivor.
pub(super) fn run(
    workspace: &Workspace,
    filters: &[String],
    servers: &[(String, String)],
) -> Result<(usize, Vec<String>)> {
    let is_selected =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    let (mut pending, mut survived) = (Vec::new(), Vec::new());
    for (name, variant) in variant::all(workspace.root())? {
        match variant {
            Ok(variant) if is_selected(&name) => pending.push(variant),
            Ok(_) => {}
            Err(problem) => survived.push(format!("{name}: {problem}")),
        }
    }
    let all = pending.len();
    let runners = (0..RUNNERS).map(|number| {
        Ok(PatchRunner { source_copy: SourceCopy::create(workspace, number)?, servers })
    });
    let runners: Vec<_> = runners.collect::<Result<_>>()?;
    // The names of the caught patches. They are valid only for exactly these files.
    let digest = runners[0].source_copy.digest()?;
    let record = workspace.target().join(format!("mutations/caught-{digest}"));
    let caught = fs::read_to_string(&record).unwrap_or_default();
    // An explicitly named patch runs again.
    pending.retain(|patch| !filters.is_empty() || caught.lines().all(|name| name != patch.name));
    if pending.len() < all {
        let (known, record) = (all - pending.len(), record.display());
        println!("skipping {known} of {all} mutation patches, which {record} lists as caught");
    }
    // Patches of the same file are adjacent, so that cargo rebuilds fewer crates.
    pending.sort_by(|one, other| one.edits[0].path.cmp(&other.edits[0].path));
    let runners = &runners[..pending.len().clamp(1, RUNNERS)];
    survived.extend(failures_without_patch(runners, &pending)?);
    let baseline_passes = survived.is_empty();
    let record_caught = |variant: &MutationPatch| {
        let file = fs::File::options().create(true).append(true).open(&record);
        let noted = file.and_then(|mut file| writeln!(file, "{}", variant.name));
        if baseline_passes { noted.with_context(cannot("write", &record)) } else { Ok(()) }
    };
    survived.extend(run_patches(runners, &pending, record_caught)?);
    if survived.is_empty() && filters.is_empty() && record.exists() {
        // The run was complete, so the record is no longer needed.
        fs::remove_file(&record).with_context(cannot("remove", &record))?;
    }
    Ok((all, survived))
}

/// Runs every test on the unchanged product; returns the failures.
fn failures_without_patch(
    runners: &[PatchRunner<'_>],
    variants: &[MutationPatch],
) -> Result<Vec<String>> {
    // A passing test prints no message.
    let detectors = variants.iter().flat_map(|variant| variant.detectors.iter().cloned());
    let detectors: BTreeSet<_> =
        detectors.map(|detector| Detector { expected_message: None, ..detector }).collect();
    let Some((first, others)) = runners.split_first() else { return Ok(Vec::new()) };
    let Some(built) = first.build(detectors.iter().map(|detector| detector.suite.as_str()))? else {
        return Ok(vec!["the unchanged product does not build".to_owned()]);
    };
    others.iter().try_for_each(|runner| runner.source_copy.reuse_build_of(&first.source_copy))?;
    let mut problems = Vec::new();
    for detector in &detectors {
        let (verdict, output) = first.run_test(&built, detector)?;
        if verdict != TestVerdict::Passed {
            println!("{output}");
            problems.push(format!("{detector} on the unchanged product: {verdict:?}"));
        }
    }
    Ok(problems)
}

/// Distributes the patches over the runners and records the caught ones. Returns the survivors.
fn run_patches(
    runners: &[PatchRunner<'_>],
    variants: &[MutationPatch],
    record_caught: impl Fn(&MutationPatch) -> Result<()> + Sync,
) -> Result<Vec<String>> {
    let queue = Mutex::new(variants.iter());
    let work = |runner: &PatchRunner<'_>| {
        let mut survived = Vec::new();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(variant) = next else { return Ok(survived) };
            let problems = runner.run_patch(variant)?;
            let result = if problems.is_empty() { "caught" } else { "SURVIVED" };
            println!("{result} {}", variant.name);
            if problems.is_empty() {
                record_caught(variant)?;
            }
            survived.extend(problems);
        }
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            runners.iter().map(|runner| scope.spawn(move || work(runner))).collect();
        let mut survived = Vec::new();
        for thread in threads {
            let part: Result<_> = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            survived.extend(part?);
        }
        Ok(survived)
    })
}
