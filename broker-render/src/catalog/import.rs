//! Import: what happens to each blueprint of a catalog, given the published versions.
//!
//! Pure: a store supplies the published versions and writes the new ones, `catalog check` supplies none.

use std::collections::BTreeSet;
use std::fmt;

use broker_domain::{BlueprintVersionId, Error};

use super::{Blueprint, Definitions, File, Files, Problem, Severity, check};

/// A blueprint of a catalog: the name of its directory, and its files.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    slug: &'a str,
    files: [Option<&'a [u8]>; 3],
}

/// A published version, as a store has it.
#[derive(Clone, Copy)]
pub struct Published<'a> {
    /// The id that a declaration names.
    pub id: BlueprintVersionId,
    /// The slug of the blueprint.
    pub slug: &'a str,
    /// The version of the blueprint.
    pub version: &'a str,
    /// The published bytes.
    pub files: Files<'a>,
}

/// What an import does with one blueprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlueprintResult {
    /// Publishes it.
    Imported,
    /// Nothing: it is published with the same bytes.
    Unchanged,
    /// Refuses it: its version is published with other bytes.
    Drift,
    /// Refuses it: it contradicts another blueprint, of the catalog or published.
    Conflict,
    /// Refuses it: it has errors of its own.
    Error,
    /// Does not publish it, because the import refuses another blueprint.
    Withheld,
}

/// The result of one blueprint.
#[derive(Debug)]
#[non_exhaustive]
pub struct BlueprintReport {
    /// The name of the directory.
    pub slug: String,
    /// The blueprint; `None` if its files cannot be read.
    pub blueprint: Option<Blueprint>,
    /// The id of the published version. A store sets it when it publishes the blueprint.
    pub id: Option<BlueprintVersionId>,
    /// The result.
    pub result: BlueprintResult,
    /// The files that differ from the published version.
    pub changed_files: Vec<File>,
    /// Every problem; warnings refuse nothing.
    pub problems: Vec<Problem>,
}

/// The results of a catalog, one per source in the same order. Its `Display` is one line per error.
#[derive(Debug)]
#[non_exhaustive]
pub struct ImportReport {
    /// The blueprints.
    pub blueprints: Vec<BlueprintReport>,
    /// The published versions that cannot be read. No resource can use them, so they contradict nothing.
    pub unreadable: Vec<Unreadable>,
}

/// A published version that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unreadable {
    /// The slug of the blueprint.
    pub slug: String,
    /// The version of the blueprint.
    pub version: String,
    /// Why.
    pub error: Error,
}

impl<'a> Source<'a> {
    /// The blueprint in directory `slug`.
    pub const fn new(slug: &'a str, files: Files<'a>) -> Self {
        let Files { metadata, xrd, composition } = files;
        Self { slug, files: [Some(metadata), Some(xrd), Some(composition)] }
    }

    /// The blueprint in directory `slug`, with its files in the order of [`File::ALL`]; `None` is a missing file.
    pub const fn with_missing(slug: &'a str, files: [Option<&'a [u8]>; 3]) -> Self {
        Self { slug, files }
    }

    /// All three files; `None` if one is missing.
    pub const fn files(&self) -> Option<Files<'a>> {
        match self.files {
            [Some(metadata), Some(xrd), Some(composition)] => {
                Some(Files { metadata, xrd, composition })
            }
            _ => None,
        }
    }
}

impl BlueprintResult {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Unchanged => "unchanged",
            Self::Drift => "drift",
            Self::Conflict => "conflict",
            Self::Error => "error",
            Self::Withheld => "withheld",
        }
    }

    /// Whether it refuses the import.
    pub const fn is_refused(self) -> bool {
        matches!(self, Self::Drift | Self::Conflict | Self::Error)
    }
}

impl BlueprintReport {
    /// Checks one blueprint by itself.
    fn check(source: &Source<'_>) -> Self {
        let slug = source.slug.to_owned();
        let (blueprint, problems) = match source.files() {
            Some(files) => check(source.slug, files),
            None => (None, source.missing()),
        };
        let result = match blueprint {
            Some(_) => BlueprintResult::Imported,
            None => BlueprintResult::Error,
        };
        Self { slug, blueprint, id: None, result, changed_files: Vec::new(), problems }
    }

    /// The version; `None` if the files cannot be read.
    pub fn version(&self) -> Option<&str> {
        self.blueprint.as_ref().map(|blueprint| blueprint.version.as_str())
    }

    fn refuse(&mut self, result: BlueprintResult, problems: impl IntoIterator<Item = Problem>) {
        self.problems.extend(problems);
        self.result = result;
    }

    fn error(&self, file: File, message: &str) -> Problem {
        Problem::new(Severity::Error, self.slug.clone(), file, message.to_owned())
    }

    /// Compares the bytes with the published version of the same name.
    fn compare(&mut self, source: &Source<'_>, published: &[Published<'_>]) {
        let (Some(version), Some(files)) = (self.version(), source.files()) else { return };
        let is_same = |it: &&Published<'_>| it.slug == self.slug && it.version == version;
        let Some(found) = published.iter().find(is_same) else { return };
        let message = format!("differs from the published {version}; use a new version name");
        self.id = Some(found.id);
        let pairs = bytes(files).into_iter().zip(bytes(found.files)).zip(File::ALL);
        let changed = pairs.filter(|((ours, theirs), _)| ours != theirs).map(|(_, file)| file);
        self.changed_files = changed.collect();
        if self.changed_files.is_empty() {
            self.result = BlueprintResult::Unchanged;
            return;
        }
        let problems: Vec<_> =
            self.changed_files.iter().map(|file| self.error(*file, &message)).collect();
        self.refuse(BlueprintResult::Drift, problems);
    }
}

impl Source<'_> {
    fn missing(&self) -> Vec<Problem> {
        let files = File::ALL.into_iter().zip(self.files).filter(|(_, bytes)| bytes.is_none());
        let problem = |(file, _)| {
            Problem::new(Severity::Error, self.slug.to_owned(), file, "is missing".to_owned())
        };
        files.map(problem).collect()
    }
}

/// The bytes in the order of [`File::ALL`].
const fn bytes(files: Files<'_>) -> [&[u8]; 3] {
    [files.metadata, files.xrd, files.composition]
}

impl ImportReport {
    /// Whether the import publishes nothing, because it refuses a blueprint.
    pub fn is_refused(&self) -> bool {
        self.blueprints.iter().any(|blueprint| blueprint.result.is_refused())
    }

    /// Every problem, by blueprint.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.blueprints.iter().flat_map(|blueprint| &blueprint.problems)
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.problems().filter(|problem| problem.severity == Severity::Error);
        let lines: Vec<_> = errors.map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Compares a catalog with the published versions: by itself, with each other, and with what is published.
///
/// An import is atomic, because blueprints refer to each other's kinds: one that is refused withholds all new ones.
///
/// ```
/// use broker_render::catalog::{BlueprintResult, Source, compare};
///
/// let report = compare(&[Source::with_missing("vm", [None; 3])], &[]);
/// assert_eq!(report.blueprints[0].result, BlueprintResult::Error);
/// assert!(report.is_refused());
/// ```
pub fn compare(sources: &[Source<'_>], published: &[Published<'_>]) -> ImportReport {
    let mut report = ImportReport { blueprints: Vec::new(), unreadable: Vec::new() };
    let mut slugs = BTreeSet::new();
    for source in sources {
        let mut blueprint = BlueprintReport::check(source);
        if slugs.insert(source.slug) {
            blueprint.compare(source, published);
        } else {
            let message = "occurs twice; a catalog has one directory per name";
            let problem = blueprint.error(File::Metadata, message);
            blueprint.refuse(BlueprintResult::Conflict, [problem]);
        }
        report.blueprints.push(blueprint);
    }
    report.find_contradictions(published);
    if report.is_refused() {
        let imported =
            report.blueprints.iter_mut().filter(|it| it.result == BlueprintResult::Imported);
        imported.for_each(|blueprint| blueprint.result = BlueprintResult::Withheld);
    }
    report
}

impl ImportReport {
    /// Compares kinds and Compositions. Adds what is published first, then the unchanged blueprints, so that a new
    /// blueprint has the conflict.
    fn find_contradictions(&mut self, published: &[Published<'_>]) {
        let mut definitions = Definitions::default();
        for Published { id, slug, version, files } in published {
            let is_unchanged = |it: &BlueprintReport| {
                it.result == BlueprintResult::Unchanged && it.id == Some(*id)
            };
            if self.blueprints.iter().any(is_unchanged) {
                continue;
            }
            if let Err(error) = definitions.add_published(slug, files.xrd, files.composition) {
                let (slug, version) = ((*slug).to_owned(), (*version).to_owned());
                self.unreadable.push(Unreadable { slug, version, error });
            }
        }
        for round in [BlueprintResult::Unchanged, BlueprintResult::Imported] {
            for report in self.blueprints.iter_mut().filter(|it| it.result == round) {
                let Some(blueprint) = &report.blueprint else { continue };
                let problems = definitions.add(blueprint);
                if !problems.is_empty() {
                    report.refuse(BlueprintResult::Conflict, problems);
                }
            }
        }
        for problem in definitions.unlisted() {
            let mut blueprints = self.blueprints.iter_mut();
            if let Some(report) = blueprints.find(|report| report.slug == problem.slug) {
                report.refuse(BlueprintResult::Error, [problem]);
            }
        }
    }
}
