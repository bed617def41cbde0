//! Stage 5, act: the labels of a Resource that become tags on the cloud.

use std::collections::BTreeMap;

use async_trait::async_trait;
use broker_domain::ResourceId;
use broker_ports::{LabelTagResolver, PortError};

use crate::error::Classified;
use crate::resolvers::PgNeighbours;

/// Inheritance comes before propagation: a label of the Resource that does not propagate also hides the
/// Project's label of that key.
const RESOLVE_LABELS: &str = "\
SELECT key, value
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
WHERE propagates";

#[async_trait]
impl LabelTagResolver for PgNeighbours {
    async fn resolve(&self, resource: ResourceId) -> Result<BTreeMap<String, String>, PortError> {
        let labels: Vec<(String, String)> = sqlx::query_as(RESOLVE_LABELS)
            .bind(resource.as_uuid())
            .fetch_all(&self.pool)
            .await
            .harmless()?;
        Ok(labels.into_iter().collect())
    }
}
