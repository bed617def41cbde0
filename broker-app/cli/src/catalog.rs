//! The commands on a catalog, over the files that [`CatalogFiles`] reads.

mod archive;
mod files;

use std::io;
use std::path::Path;

use broker_render::ProviderConfigUse;
use broker_render::catalog::{
    Blueprint, BlueprintReport, ImportReport, Problem, Severity, compare,
};
use serde_json::{Value, json};

pub(crate) use archive::ArchiveError;
pub(crate) use files::CatalogFiles;

use crate::failure::Failure;
use crate::output::Output;

/// Checks a catalog and prints every problem.
pub(crate) fn check(path: &Path, output: &mut Output<'_>) -> Result<(), Failure> {
    let files = CatalogFiles::read(path)?;
    let report = compare(&files.sources(), &[]);
    if output.is_human() {
        report.problems().try_for_each(|problem| output.text(&problem.to_string()))?;
        for blueprint in report.blueprints.iter().filter_map(|it| it.blueprint.as_ref()) {
            output.text(&format!("{}: {}", blueprint.slug, provider_config(blueprint)))?;
        }
    }
    let blueprint =
        |Blueprint { slug, version, mesh_role, xrd, provider_config, .. }: &Blueprint| {
            json!({
                "slug": slug,
                "version": version,
                "mesh_role": mesh_role.as_str(),
                "kind": xrd.kind(),
                "provider_config": provider_config.to_string(),
            })
        };
    let blueprints: Vec<_> =
        report.blueprints.iter().filter_map(|it| it.blueprint.as_ref()).map(blueprint).collect();
    let summary = match (errors(&report), blueprints.len()) {
        (0, 1) => "1 blueprint can be published".to_owned(),
        (0, 0) => "no blueprint to publish".to_owned(),
        (0, number) => format!("{number} blueprints can be published"),
        (1, _) => "no blueprint can be published: 1 error".to_owned(),
        (errors, _) => format!("no blueprint can be published: {errors} errors"),
    };
    let problems = problems(&report);
    output.done(&summary, &json!({"blueprints": blueprints, "problems": problems}))?;
    files.ensure_not_empty()?;
    ensure_valid(path, &report)
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
/// [`Failure::Catalog`] if there is any error; `print` receives every problem first.
pub(crate) fn read(
    path: &Path,
    print: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<Vec<Blueprint>, Failure> {
    let files = CatalogFiles::read(path)?;
    files.ensure_not_empty()?;
    let report = compare(&files.sources(), &[]);
    report.problems().try_for_each(|problem| print(&problem.to_string()))?;
    ensure_valid(path, &report)?;
    Ok(report.blueprints.into_iter().filter_map(|it| it.blueprint).collect())
}

/// Prints the result of every blueprint. The caller has printed the problems.
///
/// # Errors
///
/// [`Failure::CatalogRefused`] if a blueprint is refused.
pub(crate) fn print_results(
    path: &Path,
    report: &ImportReport,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let changed = |it: &BlueprintReport| -> Vec<_> {
        it.changed_files.iter().map(|file| file.as_str()).collect()
    };
    let row = |it: &BlueprintReport| {
        let id = it.id.map(|id| id.to_string());
        vec![
            it.slug.clone(),
            it.version().unwrap_or("-").to_owned(),
            it.result.as_str().to_owned(),
            id.unwrap_or_else(|| "-".to_owned()),
            changed(it).join(", "),
        ]
    };
    let object = |it: &BlueprintReport| {
        json!({
            "slug": it.slug,
            "version": it.version(),
            "result": it.result.as_str(),
            "blueprint_version_id": it.id.map(|id| id.to_string()),
            "changed_files": changed(it),
        })
    };
    let headings = ["SLUG", "VERSION", "RESULT", "BLUEPRINT VERSION ID", "CHANGED FILES"];
    let rows: Vec<_> = report.blueprints.iter().map(row).collect();
    let objects: Vec<_> = report.blueprints.iter().map(object).collect();
    let all = json!({"blueprints": objects, "problems": problems(report)});
    output.rows(&headings, &rows, &all)?;
    let refused = report.blueprints.iter().filter(|it| it.result.is_refused()).count();
    match refused {
        0 => Ok(()),
        refused => {
            let (path, total) = (path.to_owned(), report.blueprints.len());
            Err(Failure::CatalogRefused { path, refused, total })
        }
    }
}

fn problems(report: &ImportReport) -> Vec<Value> {
    let object = |problem: &Problem| {
        json!({
            "severity": problem.severity.as_str(),
            "slug": problem.slug,
            "file": problem.file.as_str(),
            "message": problem.message,
        })
    };
    report.problems().map(object).collect()
}

fn errors(report: &ImportReport) -> usize {
    report.problems().filter(|problem| problem.severity == Severity::Error).count()
}

fn ensure_valid(path: &Path, report: &ImportReport) -> Result<(), Failure> {
    match errors(report) {
        0 => Ok(()),
        errors => Err(Failure::Catalog { path: path.to_owned(), errors }),
    }
}

#[cfg(test)]
mod tests;
