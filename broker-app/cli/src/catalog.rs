//! Reads a catalog from disk: one directory per blueprint, with a size limit per file, checked before use.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use broker_render::catalog::{self, Blueprint, Definitions, Files, Problem, Severity};
use broker_render::{MAX_DOCUMENT_BYTES, ProviderConfigUse};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;

/// A catalog without errors.
pub(crate) struct Catalog {
    pub(crate) blueprints: Vec<CheckedBlueprint>,
}

/// A checked blueprint with its source bytes.
pub(crate) struct CheckedBlueprint {
    pub(crate) blueprint: Blueprint,
    pub(crate) metadata: Vec<u8>,
    pub(crate) xrd: Vec<u8>,
    pub(crate) composition: Vec<u8>,
}

/// One problem, printed as one line.
struct ProblemLine {
    severity: Severity,
    slug: String,
    file: &'static str,
    message: String,
}

#[derive(Default)]
struct Findings {
    blueprints: Vec<CheckedBlueprint>,
    lines: Vec<ProblemLine>,
}

const FILES: [catalog::File; 3] =
    [catalog::File::Metadata, catalog::File::Xrd, catalog::File::Composition];

/// Checks a catalog and prints every problem.
pub(crate) fn check(directory: &Path, output: &mut Output<'_>) -> Result<(), Failure> {
    let findings = examine(directory)?;
    if output.is_human() {
        findings.lines.iter().try_for_each(|line| output.text(&line.text()))?;
        for CheckedBlueprint { blueprint, .. } in &findings.blueprints {
            output.text(&format!("{}: {}", blueprint.slug, provider_config(blueprint)))?;
        }
    }
    let blueprints: Vec<_> = findings
        .blueprints
        .iter()
        .map(|CheckedBlueprint { blueprint, .. }| {
            json!({
                "slug": blueprint.slug,
                "version": blueprint.version,
                "mesh_role": blueprint.mesh_role.as_str(),
                "kind": blueprint.xrd.kind(),
                "provider_config": blueprint.provider_config.to_string(),
            })
        })
        .collect();
    let problems: Vec<_> = findings
        .lines
        .iter()
        .map(|line| {
            json!({
                "severity": line.severity.as_str(),
                "slug": line.slug,
                "file": line.file,
                "message": line.message,
            })
        })
        .collect();
    let summary = match (findings.errors(), blueprints.len()) {
        (0, 1) => "1 blueprint can be published".to_owned(),
        (0, 0) => "no blueprint to publish".to_owned(),
        (0, number) => format!("{number} blueprints can be published"),
        (1, _) => "no blueprint can be published: 1 error".to_owned(),
        (errors, _) => format!("no blueprint can be published: {errors} errors"),
    };
    output.done(&summary, &json!({"blueprints": blueprints, "problems": problems}))?;
    findings.without_errors(directory).map(drop)
}

/// Which ProviderConfig the broker writes for a blueprint, in words.
fn provider_config(blueprint: &Blueprint) -> String {
    let platform = blueprint.platform_configs.join(", ");
    match &blueprint.provider_config {
        ProviderConfigUse::PerResource => "one ProviderConfig per resource".to_owned(),
        ProviderConfigUse::Shared(name) => {
            format!("one ProviderConfig per Project, {name}, shared by its resources")
        }
        ProviderConfigUse::Platform if platform.is_empty() => {
            "no ProviderConfig; the platform owns it".to_owned()
        }
        ProviderConfigUse::Platform => {
            format!("no ProviderConfig; the platform owns ClusterProviderConfig {platform}")
        }
    }
}

/// Reads a catalog for a command that needs all of its blueprints.
///
/// # Errors
///
/// [`Failure::Catalog`] if there is any error; `report` receives every problem first.
pub(crate) fn read(
    directory: &Path,
    report: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<Catalog, Failure> {
    let findings = examine(directory)?;
    findings.lines.iter().try_for_each(|line| report(&line.text()))?;
    findings.without_errors(directory)
}

impl ProblemLine {
    fn text(&self) -> String {
        let Self { severity, slug, file, message } = self;
        format!("{}: {slug}/{file}: {message}", severity.as_str())
    }
}

impl Findings {
    fn errors(&self) -> usize {
        self.lines.iter().filter(|line| line.severity == Severity::Error).count()
    }

    fn report(&mut self, problems: Vec<Problem>) {
        self.lines.extend(problems.into_iter().map(|problem| ProblemLine {
            severity: problem.severity,
            slug: problem.slug,
            file: problem.file.as_str(),
            message: problem.message,
        }));
    }

    fn without_errors(self, directory: &Path) -> Result<Catalog, Failure> {
        let path = directory.to_owned();
        match (self.errors(), self.blueprints.is_empty()) {
            (0, false) => Ok(Catalog { blueprints: self.blueprints }),
            (0, true) => Err(Failure::EmptyCatalog { path }),
            (errors, _) => Err(Failure::Catalog { path, errors }),
        }
    }

    fn add(&mut self, slug: &str, directory: &Path) -> Result<(), Failure> {
        let mut files = [const { Vec::new() }; 3];
        let mut complete = true;
        for (file, bytes) in FILES.into_iter().zip(&mut files) {
            if let Some(found) = read_limited(&directory.join(file.as_str()))? {
                *bytes = found;
                continue;
            }
            complete = false;
            self.lines.push(ProblemLine {
                severity: Severity::Error,
                slug: slug.to_owned(),
                file: file.as_str(),
                message: "is missing".to_owned(),
            });
        }
        if !complete {
            return Ok(());
        }
        let [metadata, xrd, composition] = files;
        let sources = Files { metadata: &metadata, xrd: &xrd, composition: &composition };
        let (blueprint, problems) = catalog::check(slug, sources);
        self.report(problems);
        if let Some(blueprint) = blueprint {
            self.blueprints.push(CheckedBlueprint { blueprint, metadata, xrd, composition });
        }
        Ok(())
    }
}

/// Examines every visible subdirectory in name order; other files are not part of the catalog.
fn examine(directory: &Path) -> Result<Findings, Failure> {
    let unreadable = |source| Failure::File { path: directory.to_owned(), source };
    let mut slugs = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && !name.starts_with('.') {
            slugs.push((name, entry.path()));
        }
    }
    slugs.sort();
    let mut findings = Findings::default();
    for (slug, path) in slugs {
        findings.add(&slug, &path)?;
    }
    let mut definitions = Definitions::default();
    let add = |CheckedBlueprint { blueprint, .. }: &CheckedBlueprint| definitions.add(blueprint);
    let contradictions = findings.blueprints.iter().flat_map(add).collect();
    findings.report(contradictions);
    findings.report(definitions.unlisted());
    Ok(findings)
}

/// The bytes of a file; `None` if it is missing. Reads one byte more than the limit, so that the check rejects it.
fn read_limited(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let unreadable = |source| Failure::File { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
