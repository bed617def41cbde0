//! Stage 5, act: the labels of a Resource that become tags on the cloud.

use std::collections::BTreeMap;

use async_trait::async_trait;
use broker_domain::ResourceId;
use broker_ports::{LabelTagResolver, PortError};
use uuid::Uuid;

use crate::error::Classified;
use crate::resolvers::PgNeighbours;
use crate::sql::{Statement, gives, takes};

takes! {
    struct LabelsOfOne {
        resource: Uuid,
    }
}

gives! {
    struct LabelRow {
        key: String,
        value: String,
    }
}

takes! {
    struct LabelsOfMany {
        resources: Vec<Uuid>,
    }
}

gives! {
    struct PlacedLabelRow {
        place: i64,
        key: String,
        value: String,
    }
}

/// Inheritance comes before propagation: a label of the Resource that does not propagate also hides the
/// Project's label of that key.
///
/// By itself, and not as one of many: a plan for as many as a list happens to hold is made anew each time, which takes
/// longer than what it is made for.
pub(crate) const RESOLVE_LABELS: Statement<LabelsOfOne, LabelRow> = Statement::new(
    "label_tag_resolver.resolve",
    "SELECT key, value
    FROM (
        SELECT DISTINCT ON (key) key, value, propagates
        FROM (
            SELECT key, value, propagates, 0 AS distance
            FROM plexsphere.resource_labels
            WHERE resource_id = $1
            UNION ALL
            SELECT label.key, label.value, label.propagates, 1
            FROM plexsphere.resources AS resource
            JOIN plexsphere.project_labels AS label USING (project_id)
            WHERE resource.id = $1
        ) AS known
        ORDER BY key, distance
    ) AS effective
    WHERE propagates",
);

/// The same for many. The place is that of the question, from one on.
pub(crate) const RESOLVE_LABELS_OF_MANY: Statement<LabelsOfMany, PlacedLabelRow> = Statement::new(
    "label_tag_resolver.resolve_many",
    "SELECT place, key, value
    FROM (
        SELECT DISTINCT ON (place, key) place, key, value, propagates
        FROM (
            SELECT asked.place, label.key, label.value, label.propagates, 0 AS distance
            FROM unnest($1::uuid[]) WITH ORDINALITY AS asked (resource_id, place)
            JOIN plexsphere.resource_labels AS label USING (resource_id)
            UNION ALL
            SELECT asked.place, label.key, label.value, label.propagates, 1
            FROM unnest($1::uuid[]) WITH ORDINALITY AS asked (resource_id, place)
            JOIN plexsphere.resources AS resource ON resource.id = asked.resource_id
            JOIN plexsphere.project_labels AS label USING (project_id)
        ) AS known
        ORDER BY place, key, distance
    ) AS effective
    WHERE propagates",
);

impl PgNeighbours {
    /// The labels of each, in the order of the questions.
    async fn labels_of(
        &self,
        resources: &[ResourceId],
    ) -> Result<Vec<BTreeMap<String, String>>, PortError> {
        let mut connection = self.connection().await?;
        let asked = LabelsOfMany { resources: resources.iter().map(ResourceId::as_uuid).collect() };
        let rows = RESOLVE_LABELS_OF_MANY.all(&mut connection, asked).await.harmless()?;
        let mut found = vec![BTreeMap::new(); resources.len()];
        for PlacedLabelRow { place, key, value } in rows {
            let place = usize::try_from(place - 1).ok();
            if let Some(labels) = place.and_then(|place| found.get_mut(place)) {
                labels.insert(key, value);
            }
        }
        Ok(found)
    }
}

#[async_trait]
impl LabelTagResolver for PgNeighbours {
    #[tracing::instrument(name = "db.resource_labels.resolve", skip_all, fields(%resource))]
    async fn resolve(&self, resource: ResourceId) -> Result<BTreeMap<String, String>, PortError> {
        let mut connection = self.connection().await?;
        let asked = LabelsOfOne { resource: resource.as_uuid() };
        let rows = RESOLVE_LABELS.all(&mut connection, asked).await.harmless()?;
        Ok(rows.into_iter().map(|LabelRow { key, value }| (key, value)).collect())
    }

    #[tracing::instrument(name = "db.resource_labels.resolve_many", skip_all, fields(resources = resources.len()))]
    async fn resolve_many(
        &self,
        resources: &[ResourceId],
    ) -> Result<Vec<Result<BTreeMap<String, String>, PortError>>, PortError> {
        Ok(self.labels_of(resources).await?.into_iter().map(Ok).collect())
    }
}
