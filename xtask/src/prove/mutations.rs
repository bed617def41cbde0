//! Mutations: every broken variant is built, and the tests that should notice are run. None may survive.
//!
//! A catch proves something only if the same test passes on what is not broken, so that is tried first. A variant that
//! does not build is no catch, and neither is a test that crashes or never ends: each of them fails the run.

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

/// As many as a small machine has cores: what compiles and links for one, and waits for servers, leaves room for
/// another.
const LABS: usize = 2;

/// Every variant whose name contains one of the filters; without any, all of them that were not caught before the last
/// run was interrupted. Answers how many there are, and those that were not caught by each test that they name.
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
    // The names of variants that were caught, on these very files: there the same test would fail in the same way.
    let digest = labs[0].scratch.digest()?;
    let record = workspace.target().join(format!("mutations/caught-{digest}"));
    let caught = fs::read_to_string(&record).unwrap_or_default();
    // A variant that is named is tried again.
    left.retain(|it| !filters.is_empty() || caught.lines().all(|name| name != it.name));
    if left.len() < all {
        let (known, record) = (all - left.len(), record.display());
        println!("{known} of {all} variants are not tried again: they were caught, says {record}");
    }
    // Next to each other what is in the same file, so that little is built twice.
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
        // That run was not interrupted.
        fs::remove_file(&record).with_context(cannot("remove", &record))?;
    }
    Ok((all, survived))
}

/// Every test that should notice something passes where nothing is broken; otherwise, what is wrong.
fn sound(labs: &[Lab<'_>], variants: &[Variant]) -> Result<Vec<String>> {
    // What passes has nothing to say.
    let catches = variants.iter().flat_map(|variant| variant.catches.iter().cloned());
    let catches: BTreeSet<_> = catches.map(|catch| Catch { saying: None, ..catch }).collect();
    let Some((first, others)) = labs.split_first() else { return Ok(Vec::new()) };
    let Some(built) = first.build(catches.iter().map(|catch| catch.suite.as_str()))? else {
        return Ok(vec!["what is not broken does not build".to_owned()]);
    };
    others.iter().try_for_each(|lab| lab.scratch.learn_from(&first.scratch))?;
    let mut problems = Vec::new();
    for catch in &catches {
        let (verdict, output) = first.run_test(&built, catch)?;
        if verdict != Verdict::PassResult {
            println!("{output}");
            problems.push(format!("{catch} on what is not broken: {verdict:?}"));
        }
    }
    Ok(problems)
}

/// Tries every variant in whichever lab is free, and notes which were caught. The answer is what is wrong with the
/// others.
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
