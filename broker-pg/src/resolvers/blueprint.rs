//! Blueprint versions, cached without expiry: the documents of a published version never change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use broker_domain::{BlueprintVersionId, Error, MeshRole};
use broker_ports::{BlueprintResolver, BlueprintState, BlueprintVersionView, PortError};
use broker_render::catalog::{ComposedKind, composition_name, xrd_of};
use broker_render::{InjectionStrategy, ParameterSchema, ProviderConfigUse};
use serde::Deserialize;
use uuid::Uuid;

use super::PgPlatform;
use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};

params! {
    struct ResolveBlueprintValues {
        id: Uuid,
    }
}

columns! {
    struct BlueprintRow {
        xrd: Vec<u8>,
        composition: Vec<u8>,
        parameter_schema: String,
        injection_strategy: String,
        mesh_role: String,
        composed_kinds: String,
        provider_config: String,
    }
}

pub(crate) const RESOLVE_BLUEPRINT: Statement<ResolveBlueprintValues, BlueprintRow> = Statement::new(
    "blueprint_resolver.resolve",
    "SELECT xrd, composition, parameter_schema::text, injection_strategy, mesh_role, composed_kinds::text,
        provider_config
    FROM plexsphere.blueprint_versions
    WHERE id = $1",
);

columns! {
    struct BlueprintStateRow {
        state: String,
    }
}

/// Not cached: the state is the only column that changes.
pub(crate) const READ_BLUEPRINT_STATE: Statement<ResolveBlueprintValues, BlueprintStateRow> =
    Statement::new(
        "blueprint_resolver.state",
        "SELECT state FROM plexsphere.blueprint_versions WHERE id = $1",
    );

/// Limit of cached versions: an XRD may have up to a mebibyte.
const MAX_CACHED: usize = 256;

#[derive(Debug, Default)]
pub(super) struct BlueprintCache(Mutex<BTreeMap<BlueprintVersionId, Arc<BlueprintVersionView>>>);

impl BlueprintCache {
    fn get(&self, id: BlueprintVersionId) -> Option<Arc<BlueprintVersionView>> {
        self.lock().get(&id).cloned()
    }

    /// Clears a full cache: versions in use are read again at their next use.
    fn insert(&self, view: &Arc<BlueprintVersionView>) {
        let mut views = self.lock();
        if views.len() >= MAX_CACHED {
            views.clear();
        }
        views.insert(view.id, Arc::clone(view));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BlueprintVersionId, Arc<BlueprintVersionView>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A composed kind in the format of the catalog import.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredKind {
    api_version: String,
    kind: String,
}

#[async_trait]
impl BlueprintResolver for PgPlatform {
    #[tracing::instrument(name = "db.blueprint_version.resolve", skip_all, fields(blueprint_version = %id))]
    async fn resolve(
        &self,
        id: BlueprintVersionId,
    ) -> Result<Option<Arc<BlueprintVersionView>>, PortError> {
        if let Some(view) = self.blueprints.get(id) {
            return Ok(Some(view));
        }
        let mut connection = self.connection().await?;
        let values = ResolveBlueprintValues { id: id.as_uuid() };
        let row =
            RESOLVE_BLUEPRINT.optional(&mut connection, values).await.map_uncommitted_error()?;
        let Some(row) = row else { return Ok(None) };
        let view =
            parse_row(id, row).map_err(|error| invalid_row("blueprint_versions", id, error))?;
        let view = Arc::new(view);
        self.blueprints.insert(&view);
        Ok(Some(view))
    }

    #[tracing::instrument(name = "db.blueprint_version.state", skip_all, fields(blueprint_version = %id))]
    async fn state(&self, id: BlueprintVersionId) -> Result<Option<BlueprintState>, PortError> {
        let mut connection = self.connection().await?;
        let values = ResolveBlueprintValues { id: id.as_uuid() };
        let row =
            READ_BLUEPRINT_STATE.optional(&mut connection, values).await.map_uncommitted_error()?;
        let state = row.map(|row| BlueprintState::try_from(row.state.as_str())).transpose();
        state.map_err(|error| invalid_row("blueprint_versions", id, error))
    }
}

fn parse_row(id: BlueprintVersionId, row: BlueprintRow) -> Result<BlueprintVersionView, Error> {
    let BlueprintRow {
        xrd,
        composition,
        parameter_schema,
        injection_strategy,
        mesh_role,
        composed_kinds,
        provider_config,
    } = row;
    let view = BlueprintVersionView::new(
        id,
        Arc::new(xrd_of(&xrd, &composition)?),
        composition_name(&composition)?,
        Arc::new(ParameterSchema::parse(parameter_schema.as_bytes())?),
        InjectionStrategy::try_from(injection_strategy.as_str())?,
        MeshRole::try_from(mesh_role.as_str())?,
    );
    let kinds: Vec<StoredKind> = serde_json::from_str(&composed_kinds).map_err(|_| {
        Error::invalid("composed_kinds", "is not a list of objects with apiVersion and kind")
    })?;
    let to_composed = |StoredKind { api_version, kind }| ComposedKind { api_version, kind };
    let view = view.composing(kinds.into_iter().map(to_composed).collect::<Vec<_>>());
    Ok(view.using(ProviderConfigUse::parse(&provider_config)?))
}
