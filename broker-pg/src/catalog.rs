//! Publishes the blueprint catalog: all blueprints or none.
//!
//! `broker_render::catalog` checks and compares; this module reads the published versions and assigns the ids that a
//! declaration names. A published version is immutable: the same bytes are a no-op, other bytes are refused.

use broker_domain::BlueprintVersionId;
use broker_ports::PortError;
use broker_render::catalog::{
    Blueprint, BlueprintResult, ComposedKind, Files, ImportReport, Published, compare,
};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::transaction;

pub use broker_render::catalog::Source;

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
    struct NewRow {
        id: Uuid,
    }
}

/// Returns no row if another writer published the version meanwhile; waits for its transaction.
pub(crate) const PUBLISH_BLUEPRINT: Statement<PublishBlueprintValues<'_>, NewRow> = Statement::new(
    "catalog.publish",
    "INSERT INTO plexsphere.blueprint_versions
        (slug, version, display_name, description, provider_kinds, injection_strategy, mesh_role,
         parameter_schema, composed_kinds, metadata, xrd, composition, provider_config)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9::text::jsonb, $10, $11, $12, $13)
    ON CONFLICT (slug, version) DO NOTHING
    RETURNING id",
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
    struct PublishedRow {
        id: Uuid,
        slug: String,
        version: String,
        metadata: Vec<u8>,
        xrd: Vec<u8>,
        composition: Vec<u8>,
    }
}

pub(crate) const READ_PUBLISHED: Statement<(), PublishedRow> = Statement::new(
    "catalog.published",
    "SELECT id, slug, version, metadata, xrd, composition FROM plexsphere.blueprint_versions
    ORDER BY slug, version",
);

/// Why an import published nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// At least one blueprint is refused. Its `Display` is one line per error.
    #[error("{0}")]
    Refused(ImportReport),
    /// The database failed. After class `Unknown`, all or nothing was published; a repeated import reports which.
    #[error("the catalog cannot be published")]
    Store(#[from] PortError),
}

/// Compares every blueprint with the published versions, and publishes the new ones in one transaction.
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
/// for report in catalog::import(pool, &[Source::new("vm", files)]).await?.blueprints {
///     println!("{} is {}: {:?}", report.slug, report.result.as_str(), report.id);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`ImportError`]; nothing was published then.
#[tracing::instrument(name = "db.blueprint_version.import", skip_all, fields(blueprints = sources.len()))]
pub async fn import(pool: &PgPool, sources: &[Source<'_>]) -> Result<ImportReport, ImportError> {
    let mut transaction = transaction::begin(pool).await.map_uncommitted_error()?;
    LOCK_CATALOG
        .optional(&mut transaction, LockCatalogValues { key: IMPORT_LOCK })
        .await
        .map_uncommitted_error()?;
    let mut report = compare_with_published(&mut transaction, sources).await?;
    if report.is_refused() {
        transaction.roll_back().await;
        return Err(ImportError::Refused(report));
    }
    for (source, line) in sources.iter().zip(&mut report.blueprints) {
        if let (BlueprintResult::Imported, Some(blueprint), Some(files)) =
            (line.result, &line.blueprint, source.files())
        {
            line.id = Some(publish(&mut transaction, blueprint, files).await?);
        }
    }
    transaction.commit().await.map_commit_error()?;
    Ok(report)
}

/// What [`import`] would do. Writes nothing and takes no lock, so a concurrent import may change the answer.
///
/// # Errors
///
/// [`PortError`] if the database failed.
#[tracing::instrument(name = "db.blueprint_version.diff", skip_all, fields(blueprints = sources.len()))]
pub async fn diff(pool: &PgPool, sources: &[Source<'_>]) -> Result<ImportReport, PortError> {
    let mut connection = pool.acquire().await.map_uncommitted_error()?;
    compare_with_published(&mut connection, sources).await
}

async fn compare_with_published(
    connection: &mut PgConnection,
    sources: &[Source<'_>],
) -> Result<ImportReport, PortError> {
    let rows = READ_PUBLISHED.all(connection, ()).await.map_uncommitted_error()?;
    let published = rows.iter().map(|row| {
        let PublishedRow { id, slug, version, metadata, xrd, composition } = row;
        let files = Files { metadata, xrd, composition };
        Ok(Published { id: parse_version_id(*id)?, slug, version, files })
    });
    let published = published.collect::<Result<Vec<_>, PortError>>()?;
    let report = compare(sources, &published);
    for unreadable in &report.unreadable {
        let (slug, version, error) = (&unreadable.slug, &unreadable.version, &unreadable.error);
        tracing::warn!(%slug, %version, %error, "a published blueprint version cannot be read");
    }
    Ok(report)
}

async fn publish(
    connection: &mut PgConnection,
    blueprint: &Blueprint,
    Files { metadata, xrd, composition }: Files<'_>,
) -> Result<BlueprintVersionId, PortError> {
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
    let row = PUBLISH_BLUEPRINT.optional(connection, values).await.map_uncommitted_error()?;
    // Imports wait for each other, so only a writer without their lock causes this.
    let Some(NewRow { id }) = row else {
        let message = format!("another writer published {slug} {version} during the import");
        return Err(PortError::transient(message));
    };
    parse_version_id(id)
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
