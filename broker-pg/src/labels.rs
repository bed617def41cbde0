//! Declare: a Project's Resources, with the labels that become cloud tags.

use async_trait::async_trait;
use broker_domain::{ProjectId, ResourceId};
use broker_ports::{LabelTagResolver, PortError, ResourceView};
use uuid::Uuid;

use crate::error::ClassifyError;
use crate::resolvers::PgPlatform;
use crate::sql::{Statement, columns, params};

params! {
    struct LabelsOfOneValues {
        project: Uuid,
        resource: Uuid,
    }
}

columns! {
    struct LabelRow {
        key: Option<String>,
        value: Option<String>,
    }
}

params! {
    struct LabelsOfManyValues {
        projects: Vec<Uuid>,
        resources: Vec<Uuid>,
    }
}

columns! {
    struct PlacedLabelRow {
        place: i64,
        key: Option<String>,
        value: Option<String>,
    }
}

/// No row means that the Project has no such Resource. A Resource without labels is one row of nulls.
///
/// A label of the Resource hides the Project's label with that key, even if the Resource's label does not propagate.
///
/// Separate from the batch statement: Postgres plans that one at each call, and planning takes longer than this query.
pub(crate) const RESOLVE_LABELS: Statement<LabelsOfOneValues, LabelRow> = Statement::new(
    "label_tag_resolver.resolve",
    "SELECT effective.key, effective.value
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
pub(crate) const RESOLVE_LABELS_OF_MANY: Statement<LabelsOfManyValues, PlacedLabelRow> = Statement::new(
    "label_tag_resolver.resolve_many",
    "WITH found AS MATERIALIZED (
        SELECT asked.place, resource.id AS resource_id, resource.project_id
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
    SELECT found.place, effective.key, effective.value
    FROM found
    LEFT JOIN effective ON effective.place = found.place AND effective.propagates",
);

#[async_trait]
impl LabelTagResolver for PgPlatform {
    #[tracing::instrument(name = "db.resource_labels.resolve", skip_all, fields(%project, %resource))]
    async fn resolve(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> Result<Option<ResourceView>, PortError> {
        let mut connection = self.connection().await?;
        let values = LabelsOfOneValues { project: project.as_uuid(), resource: resource.as_uuid() };
        let rows = RESOLVE_LABELS.all(&mut connection, values).await.map_uncommitted_error()?;
        let mut view = None;
        for LabelRow { key, value } in rows {
            view.get_or_insert_with(ResourceView::default).labels.extend(key.zip(value));
        }
        Ok(view)
    }

    #[tracing::instrument(name = "db.resource_labels.resolve_many", skip_all, fields(resources = resources.len()))]
    async fn resolve_many(
        &self,
        resources: &[(ProjectId, ResourceId)],
    ) -> Result<Vec<Result<Option<ResourceView>, PortError>>, PortError> {
        let mut connection = self.connection().await?;
        let values = LabelsOfManyValues {
            projects: resources.iter().map(|(project, _)| project.as_uuid()).collect(),
            resources: resources.iter().map(|(_, resource)| resource.as_uuid()).collect(),
        };
        let rows =
            RESOLVE_LABELS_OF_MANY.all(&mut connection, values).await.map_uncommitted_error()?;
        let mut views = vec![None; resources.len()];
        for PlacedLabelRow { place, key, value } in rows {
            let index = usize::try_from(place - 1).ok();
            if let Some(view) = index.and_then(|index| views.get_mut(index)) {
                view.get_or_insert_with(ResourceView::default).labels.extend(key.zip(value));
            }
        }
        Ok(views.into_iter().map(Ok).collect())
    }
}
