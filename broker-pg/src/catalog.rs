//! Publishes the blueprint catalog: all blueprints or none.
//!
//! `broker_render::catalog` reads and checks; this module assigns the ids that a declaration names. A published
//! version is immutable: the same bytes are a no-op, other bytes are refused.

use broker_domain::BlueprintVersionId;
use broker_ports::PortError;
use broker_render::catalog::{
    self, Blueprint, ComposedKind, Definitions, File, Files, Problem, Severity,
};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::transaction;

params! {
    struct PublishBlueprintValues<'a> {
        slug: &'a str,
        version: &'a str,
        display_name: &'a str,
        description: &'a str,
        provider_kinds: &'a [String],
        injection_strategy: &'a str,
        mesh_role: &'a str,
        parameter_schema: String,
        composed_kinds: String,
        metadata: &'a [u8],
        xrd: &'a [u8],
        composition: &'a [u8],
        provider_config: String,
    }
}

columns! {
    struct PublishedRow {
        id: Uuid,
    }
}

/// Waits for a concurrent insert of the same version.
pub(crate) const PUBLISH_BLUEPRINT: Statement<PublishBlueprintValues<'_>, PublishedRow> =
    Statement::new(
        "catalog.publish",
        "INSERT INTO plexsphere.blueprint_versions
        (slug, version, display_name, description, provider_kinds, injection_strategy, mesh_role,
         parameter_schema, composed_kinds, metadata, xrd, composition, provider_config)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9::text::jsonb, $10, $11, $12, $13)
    ON CONFLICT (slug, version) DO NOTHING
    RETURNING id",
    );

params! {
    struct CompareBlueprintValues<'a> {
        slug: &'a str,
        version: &'a str,
        metadata: &'a [u8],
        xrd: &'a [u8],
        composition: &'a [u8],
    }
}

columns! {
    struct ComparedRow {
        id: Uuid,
        same_metadata: bool,
        same_xrd: bool,
        same_composition: bool,
    }
}

/// A separate statement, so that its snapshot contains the row that the insert waited for.
pub(crate) const COMPARE_BLUEPRINT: Statement<CompareBlueprintValues<'_>, ComparedRow> =
    Statement::new(
        "catalog.compare",
        "SELECT id, metadata = $3 AS same_metadata, xrd = $4 AS same_xrd,
        composition = $5 AS same_composition
    FROM plexsphere.blueprint_versions
    WHERE slug = $1 AND version = $2",
    );

params! {
    struct LockCatalogValues {
        key: i64,
    }
}

/// Held until the transaction ends, so that two contradicting imports cannot both succeed.
pub(crate) const LOCK_CATALOG: Statement<LockCatalogValues, ()> =
    Statement::new("catalog.lock", "SELECT FROM (SELECT pg_advisory_xact_lock($1)) AS locked");

/// The advisory lock of all imports into a database.
const IMPORT_LOCK: i64 = 0x7072_6f76_6361_7461;

columns! {
    struct DefinitionRow {
        slug: String,
        version: String,
        xrd: Vec<u8>,
        composition: Vec<u8>,
    }
}

pub(crate) const READ_DEFINITIONS: Statement<(), DefinitionRow> = Statement::new(
    "catalog.definitions",
    "SELECT slug, version, xrd, composition FROM plexsphere.blueprint_versions ORDER BY slug, version",
);

/// A blueprint to publish: its directory name and files.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    slug: &'a str,
    files: Files<'a>,
}

impl<'a> Source<'a> {
    /// The blueprint in directory `slug`.
    pub const fn new(slug: &'a str, files: Files<'a>) -> Self {
        Self { slug, files }
    }
}

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The newly published versions, by slug.
    pub published: Vec<BlueprintVersion>,
    /// The versions that were already published with the same bytes.
    pub unchanged: Vec<BlueprintVersion>,
}

/// A published version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlueprintVersion {
    /// The id that a declaration names.
    pub id: BlueprintVersionId,
    /// The slug of the blueprint.
    pub slug: String,
    /// The version of the blueprint.
    pub version: String,
}

/// Why an import published nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A blueprint has errors. Holds all of them, one line each.
    #[error("{}", join_lines(.0))]
    Unfit(Vec<Problem>),
    /// Two blueprints have the same name.
    #[error("{slug}: occurs twice; a catalog has one directory per name")]
    Twice {
        /// The duplicated name.
        slug: String,
    },
    /// The version is published with other bytes.
    #[error(
        "{slug} {version}: was published with another {}; publish a new version",
        file.as_str()
    )]
    Drifted {
        /// The slug of the blueprint.
        slug: String,
        /// The version of the blueprint.
        version: String,
        /// The first file that differs.
        file: File,
    },
    /// The database failed. After class `Unknown`, all or nothing was published; a repeated import reports which.
    #[error("the catalog cannot be published")]
    Store(#[from] PortError),
}

fn join_lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks every blueprint and publishes the new ones in one transaction.
///
/// ```no_run
/// # async fn example(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use broker_pg::catalog::{self, Source};
/// use broker_render::catalog::Files;
///
/// let [metadata, xrd, composition] =
///     ["metadata.json", "xrd.yaml", "composition.yaml"].map(|file| std::fs::read(format!("catalog/vm/{file}")));
/// let (metadata, xrd, composition) = (metadata?, xrd?, composition?);
/// let files = Files { metadata: &metadata, xrd: &xrd, composition: &composition };
/// for version in catalog::import(pool, &[Source::new("vm", files)]).await?.published {
///     println!("{} {} is {}", version.slug, version.version, version.id);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`ImportError`]; nothing was published then.
#[tracing::instrument(name = "db.blueprint_version.import", skip_all, fields(blueprints = blueprints.len()))]
pub async fn import(pool: &PgPool, blueprints: &[Source<'_>]) -> Result<Imported, ImportError> {
    let drafts = check(blueprints)?;
    let mut imported = Imported { published: Vec::new(), unchanged: Vec::new() };
    let mut transaction = transaction::begin(pool).await.map_uncommitted_error()?;
    LOCK_CATALOG
        .optional(&mut transaction, LockCatalogValues { key: IMPORT_LOCK })
        .await
        .map_uncommitted_error()?;
    check_against_published(&mut transaction, &drafts).await?;
    for draft in &drafts {
        match publish(&mut transaction, draft).await? {
            (id, PublishResult::Published) => imported.published.push(draft.version(id)),
            (id, PublishResult::Unchanged) => imported.unchanged.push(draft.version(id)),
        }
    }
    transaction.commit().await.map_commit_error()?;
    Ok(imported)
}

struct Draft<'a> {
    blueprint: Blueprint,
    files: Files<'a>,
}

impl Draft<'_> {
    fn version(&self, id: BlueprintVersionId) -> BlueprintVersion {
        let Blueprint { slug, version, .. } = &self.blueprint;
        BlueprintVersion { id, slug: slug.clone(), version: version.clone() }
    }
}

/// Finds every error that needs no database. Sorts by slug, so that concurrent imports cannot deadlock.
fn check<'a>(sources: &[Source<'a>]) -> Result<Vec<Draft<'a>>, ImportError> {
    let mut drafts = Vec::with_capacity(sources.len());
    let mut errors = Vec::new();
    for &Source { slug, files } in sources {
        let (blueprint, problems) = catalog::check(slug, files);
        drafts.extend(blueprint.map(|blueprint| Draft { blueprint, files }));
        errors.extend(problems.into_iter().filter(|problem| problem.severity == Severity::Error));
    }
    if !errors.is_empty() {
        return Err(ImportError::Unfit(errors));
    }
    let mut definitions = Definitions::default();
    errors.extend(drafts.iter().flat_map(|draft| definitions.add(&draft.blueprint)));
    errors.extend(definitions.unlisted());
    if !errors.is_empty() {
        return Err(ImportError::Unfit(errors));
    }
    drafts.sort_by(|left, right| left.blueprint.slug.cmp(&right.blueprint.slug));
    let has_same_slug = |pair: &&[Draft<'_>]| pair[0].blueprint.slug == pair[1].blueprint.slug;
    if let Some(duplicate) = drafts.windows(2).find(has_same_slug) {
        return Err(ImportError::Twice { slug: duplicate[0].blueprint.slug.clone() });
    }
    Ok(drafts)
}

/// Compares kinds and Compositions with every other published version. A draft whose own version is published is
/// compared byte by byte on publication.
async fn check_against_published(
    connection: &mut PgConnection,
    drafts: &[Draft<'_>],
) -> Result<(), ImportError> {
    let mut definitions = Definitions::default();
    for row in READ_DEFINITIONS.all(connection, ()).await.map_uncommitted_error()? {
        let DefinitionRow { slug, version, xrd, composition } = row;
        let is_draft = |draft: &Draft<'_>| {
            (&draft.blueprint.slug, &draft.blueprint.version) == (&slug, &version)
        };
        if drafts.iter().any(is_draft) {
            continue;
        }
        // No resource can use an unreadable version, so it cannot contradict a draft.
        if let Err(error) = definitions.add_published(&slug, &xrd, &composition) {
            tracing::warn!(%slug, %version, %error, "a published blueprint version cannot be read");
        }
    }
    let mut errors: Vec<_> =
        drafts.iter().flat_map(|draft| definitions.add(&draft.blueprint)).collect();
    errors.extend(definitions.unlisted());
    if errors.is_empty() { Ok(()) } else { Err(ImportError::Unfit(errors)) }
}

enum PublishResult {
    Published,
    Unchanged,
}

async fn publish(
    connection: &mut PgConnection,
    draft: &Draft<'_>,
) -> Result<(BlueprintVersionId, PublishResult), ImportError> {
    let Draft { blueprint, files: Files { metadata, xrd, composition } } = draft;
    let (slug, version) = (blueprint.slug.as_str(), blueprint.version.as_str());
    let values = PublishBlueprintValues {
        slug,
        version,
        display_name: &blueprint.display_name,
        description: &blueprint.description,
        provider_kinds: &blueprint.provider_kinds,
        injection_strategy: blueprint.injection_strategy.as_str(),
        mesh_role: blueprint.mesh_role.as_str(),
        parameter_schema: parameter_schema(metadata)?,
        composed_kinds: composed_kinds(&blueprint.composed_kinds),
        metadata,
        xrd,
        composition,
        provider_config: blueprint.provider_config.to_string(),
    };
    if let Some(PublishedRow { id }) =
        PUBLISH_BLUEPRINT.optional(connection, values).await.map_uncommitted_error()?
    {
        return Ok((parse_version_id(id)?, PublishResult::Published));
    }
    let values = CompareBlueprintValues { slug, version, metadata, xrd, composition };
    let ComparedRow { id, same_metadata, same_xrd, same_composition } =
        COMPARE_BLUEPRINT.one(connection, values).await.map_uncommitted_error()?;
    let files = [
        (File::Metadata, same_metadata),
        (File::Xrd, same_xrd),
        (File::Composition, same_composition),
    ];
    match files.into_iter().find(|(_, same)| !same) {
        None => Ok((parse_version_id(id)?, PublishResult::Unchanged)),
        Some((file, _)) => {
            let (slug, version) = (slug.to_owned(), version.to_owned());
            Err(ImportError::Drifted { slug, version, file })
        }
    }
}

fn parse_version_id(id: Uuid) -> Result<BlueprintVersionId, PortError> {
    BlueprintVersionId::new(id).map_err(|error| invalid_row("blueprint_versions", id, error))
}

fn parameter_schema(metadata: &[u8]) -> Result<String, PortError> {
    let document: Value = serde_json::from_slice(metadata).map_err(|error| {
        PortError::rejected("metadata.json cannot be parsed").with_source(error)
    })?;
    Ok(document["parameterSchema"].to_string())
}

/// The format that the resolver reads.
fn composed_kinds(kinds: &[ComposedKind]) -> String {
    let kind = |ComposedKind { api_version, kind }: &ComposedKind| json!({"apiVersion": api_version, "kind": kind});
    Value::Array(kinds.iter().map(kind).collect()).to_string()
}
