//! Declare: a Project's Resources: the handle, and the labels that become cloud tags.

use std::collections::BTreeMap;

use async_trait::async_trait;
use broker_domain::{ProjectId, ResourceHandle, ResourceId};
use broker_ports::{PortError, ResourceReader, ResourceView};
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::resolvers::PgPlatform;
use crate::sql::{Statement, columns, params};

params! {
    struct ReadResourceValues {
        project: Uuid,
        resource: Uuid,
    }
}

columns! {
    struct ResourceRow {
        handle: String,
        key: Option<String>,
        value: Option<String>,
    }
}

params! {
    struct ReadResourcesValues {
        projects: Vec<Uuid>,
        resources: Vec<Uuid>,
    }
}

columns! {
    struct PlacedResourceRow {
        place: i64,
        handle: String,
        key: Option<String>,
        value: Option<String>,
    }
}

/// One row per propagating label. No row means that the Project has no such Resource; a Resource without labels is
/// one row without key and value.
///
/// A label of the Resource hides the Project's label with that key, even if the Resource's label does not propagate.
///
/// Separate from the batch statement: Postgres plans that one at each call, and planning takes longer than this query.
pub(crate) const READ_RESOURCE: Statement<ReadResourceValues, ResourceRow> = Statement::new(
    "resource_reader.read",
    "SELECT resource.handle, effective.key, effective.value
    FROM plexsphere.resources AS resource
    LEFT JOIN LATERAL (
        SELECT DISTINCT ON (key) key, value, propagates
        FROM (
            SELECT key, value, propagates, 0 AS distance
            FROM plexsphere.resource_labels
            WHERE resource_id = $2
            UNION ALL
            SELECT key, value, propagates, 1
            FROM plexsphere.project_labels
            WHERE project_id = $1
        ) AS known
        ORDER BY key, distance
    ) AS effective ON effective.propagates
    WHERE resource.id = $2 AND resource.project_id = $1",
);

/// The batch form. `place` is the position of the requested Resource, starting at one.
pub(crate) const READ_RESOURCES: Statement<ReadResourcesValues, PlacedResourceRow> = Statement::new(
    "resource_reader.read_many",
    "WITH found AS MATERIALIZED (
        SELECT asked.place, resource.id AS resource_id, resource.project_id, resource.handle
        FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS asked (project_id, resource_id, place)
        JOIN plexsphere.resources AS resource
            ON resource.id = asked.resource_id AND resource.project_id = asked.project_id
    ), effective AS (
        SELECT DISTINCT ON (place, key) place, key, value, propagates
        FROM (
            SELECT found.place, label.key, label.value, label.propagates, 0 AS distance
            FROM found
            JOIN plexsphere.resource_labels AS label USING (resource_id)
            UNION ALL
            SELECT found.place, label.key, label.value, label.propagates, 1
            FROM found
            JOIN plexsphere.project_labels AS label USING (project_id)
        ) AS known
        ORDER BY place, key, distance
    )
    SELECT found.place, found.handle, effective.key, effective.value
    FROM found
    LEFT JOIN effective ON effective.place = found.place AND effective.propagates",
);

#[async_trait]
impl ResourceReader for PgPlatform {
    #[tracing::instrument(name = "db.resource.read", skip_all, fields(%project, %resource))]
    async fn read(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> Result<Option<ResourceView>, PortError> {
        let mut connection = self.connection().await?;
        let values =
            ReadResourceValues { project: project.as_uuid(), resource: resource.as_uuid() };
        let rows = READ_RESOURCE.all(&mut connection, values).await.map_uncommitted_error()?;
        let mut found = None;
        for ResourceRow { handle, key, value } in rows {
            found.get_or_insert_with(|| (handle, BTreeMap::new())).1.extend(key.zip(value));
        }
        found.map(|found| parse(resource, found)).transpose()
    }

    #[tracing::instrument(name = "db.resource.read_many", skip_all, fields(resources = resources.len()))]
    async fn read_many(
        &self,
        resources: &[(ProjectId, ResourceId)],
    ) -> Result<Vec<Result<Option<ResourceView>, PortError>>, PortError> {
        let mut connection = self.connection().await?;
        let values = ReadResourcesValues {
            projects: resources.iter().map(|(project, _)| project.as_uuid()).collect(),
            resources: resources.iter().map(|(_, resource)| resource.as_uuid()).collect(),
        };
        let rows = READ_RESOURCES.all(&mut connection, values).await.map_uncommitted_error()?;
        let mut all: Vec<Option<StoredResource>> = vec![None; resources.len()];
        for PlacedResourceRow { place, handle, key, value } in rows {
            let index = usize::try_from(place - 1).ok();
            if let Some(found) = index.and_then(|index| all.get_mut(index)) {
                found.get_or_insert_with(|| (handle, BTreeMap::new())).1.extend(key.zip(value));
            }
        }
        let parse = |(found, (_, resource)): (Option<StoredResource>, &(ProjectId, ResourceId))| {
            found.map(|found| parse(*resource, found)).transpose()
        };
        Ok(all.into_iter().zip(resources).map(parse).collect())
    }
}

/// Handle and labels, unparsed.
type StoredResource = (String, BTreeMap<String, String>);

fn parse(
    resource: ResourceId,
    (handle, labels): StoredResource,
) -> Result<ResourceView, PortError> {
    let handle =
        ResourceHandle::new(handle).map_err(|error| invalid_row("resources", resource, error))?;
    Ok(ResourceView::new(handle, labels))
}
