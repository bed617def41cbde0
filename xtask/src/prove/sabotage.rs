//! Sabotage: every broken variant is built, and the tests that should notice are run. None may survive.
//!
//! A catch proves something only if the same test passes on what is not broken, so that is tried first. A variant that
//! does not build is no catch, and neither is a test that crashes or never ends: each of them fails the run.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;
use broker_test_servers::progress::elapsed;

use super::lab::{Lab, Verdict};
use super::scratch::Scratch;
use super::variant::{self, Catch, Variant};
use crate::cli::ProveArguments;
use crate::workspace::Workspace;

/// As many as a small machine has cores: what compiles and links for one, and waits for servers, leaves room for
/// another.
const LABS: usize = 2;

/// Every variant whose name contains one of the filters; without any, all of them that were not caught before the last
/// run was interrupted. Answers how many there are, and those that were not caught by each test that they name.
pub(super) fn run(
    workspace: &Workspace,
    arguments: &ProveArguments,
    servers: &[(String, String)],
) -> Result<(usize, Vec<String>)> {
    let filters = &arguments.variants;
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
    let path = workspace.target().join("sabotage/caught");
    let mut record = Record::read(path, labs[0].scratch.digest()?)?;
    if arguments.afresh {
        record.forget()?;
    }
    // A variant that is named is tried again.
    left.retain(|variant| !filters.is_empty() || !record.has(variant));
    if left.len() < all {
        let known = all - left.len();
        println!(
            "{known} of {all} variants were caught on these very files and are not tried again"
        );
    }
    // Next to each other what is in the same file, so that little is built twice.
    left.sort_by(|one, other| one.edits[0].path.cmp(&other.edits[0].path));
    let labs = &labs[..left.len().clamp(1, LABS)];
    survived.extend(sound(labs, &left)?);
    let may_count = survived.is_empty();
    let note = |variant: &Variant| if may_count { record.add(variant) } else { Ok(()) };
    survived.extend(try_all(labs, &left, note)?);
    if survived.is_empty() && filters.is_empty() {
        // That run was not interrupted.
        record.forget()?;
    }
    Ok((all, survived))
}

/// Which variants were caught already, so that a run that was interrupted can go on where it was.
///
/// A line is the digest of the sources and all that was read of a patch. It counts only while neither has changed: then
/// the same test would fail in the same way.
struct Record {
    path: PathBuf,
    sources: String,
    lines: BTreeSet<String>,
}

impl Record {
    /// What the last runs left.
    fn read(path: PathBuf, sources: String) -> Result<Self> {
        let text = if path.exists() { fs::read_to_string(&path) } else { Ok(String::new()) };
        let text = text.with_context(cannot("read", &path))?;
        Ok(Self { path, sources, lines: text.lines().map(str::to_owned).collect() })
    }

    /// Whether it was caught, on these very sources.
    fn has(&self, variant: &Variant) -> bool {
        self.lines.contains(&self.line(variant))
    }

    /// Notes that it was caught.
    fn add(&mut self, variant: &Variant) -> Result<()> {
        self.lines.insert(self.line(variant));
        self.write()
    }

    /// Everything is to be tried again.
    fn forget(&mut self) -> Result<()> {
        self.lines.clear();
        self.write()
    }

    fn line(&self, variant: &Variant) -> String {
        format!("{} {variant:?}", self.sources)
    }

    fn write(&self) -> Result<()> {
        let text: String = self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        fs::write(&self.path, text).with_context(cannot("write", &self.path))
    }
}

/// Every test that should notice something passes where nothing is broken; otherwise, what is wrong. Meanwhile the
/// other labs get ready.
fn sound(labs: &[Lab<'_>], variants: &[Variant]) -> Result<Vec<String>> {
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
    note: impl FnMut(&Variant) -> Result<()> + Send,
) -> Result<Vec<String>> {
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
            let part: Result<_> = lab.join().unwrap_or_else(|panic| resume_unwind(panic));
            survived.extend(part?);
        }
        Ok(survived)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_a_catch_counts_until_something_changes() {
        let variant = |new: &str| {
            let head =
                "Breaks: Two.\nCaught by: proof counting::two\n--- a/a.rs\n+++ b/a.rs\n@@ @@\n";
            Variant::parse("act/two", &format!("{head}-two\n+{new}\n")).unwrap()
        };
        let directory = tempfile::tempdir().unwrap();
        let read = |sources: &str| {
            Record::read(directory.path().join("caught"), sources.to_owned()).unwrap()
        };
        read("these").add(&variant("three")).unwrap();
        for (sources, new, expected) in
            [("these", "three", true), ("these", "four", false), ("others", "three", false)]
        {
            assert_eq!(read(sources).has(&variant(new)), expected, "{sources} {new}");
        }
        read("these").forget().unwrap();
        assert!(!read("these").has(&variant("three")), "it was forgotten");
    }
}
