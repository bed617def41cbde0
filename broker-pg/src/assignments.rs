//! Stage 1, declare, and the gate before every apply: where a Project lives on the management cluster.

use async_trait::async_trait;
use broker_domain::ProjectId;
use broker_ports::{AssignmentReader, NamespaceObservation, PortError};

use crate::error::Classified;
use crate::resolvers::PgNeighbours;

const READ_ASSIGNMENT: &str = "\
SELECT namespace, namespace_phase = 'Ready'
FROM plexsphere.namespace_assignments
WHERE project_id = $1";

#[async_trait]
impl AssignmentReader for PgNeighbours {
    async fn read(&self, project: ProjectId) -> Result<Option<NamespaceObservation>, PortError> {
        let row: Option<(String, bool)> = sqlx::query_as(READ_ASSIGNMENT)
            .bind(project.as_uuid())
            .fetch_optional(&self.pool)
            .await
            .harmless()?;
        Ok(row.map(|(namespace, ready)| NamespaceObservation::new(namespace, ready)))
    }
}
