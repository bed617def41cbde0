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
    struct ResolveLabels {
        resource_id: Uuid,
    }
}

gives! {
    struct LabelRow {
        key: String,
        value: String,
    }
}

/// Inheritance comes before propagation: a label of the Resource that does not propagate also hides the
/// Project's label of that key.
pub(crate) const RESOLVE_LABELS: Statement<ResolveLabels, LabelRow> = Statement::new(
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

#[async_trait]
impl LabelTagResolver for PgNeighbours {
    #[tracing::instrument(name = "db.resource_labels.resolve", skip_all, fields(%resource))]
    async fn resolve(&self, resource: ResourceId) -> Result<BTreeMap<String, String>, PortError> {
        let mut connection = self.connection().await?;
        let asked = ResolveLabels { resource_id: resource.as_uuid() };
        let rows = RESOLVE_LABELS.all(&mut connection, asked).await.harmless()?;
        Ok(rows.into_iter().map(|LabelRow { key, value }| (key, value)).collect())
    }
}
