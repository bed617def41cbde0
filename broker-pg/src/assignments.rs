//! Declare and act: reads the namespace of a Project on the management cluster.

use async_trait::async_trait;
use broker_domain::{ClusterId, ProjectId};
use broker_ports::{AssignmentReader, NamespaceObservation, NamespacePhase, PortError};
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::resolvers::PgPlatform;
use crate::sql::{Statement, columns, params};

params! {
    struct ReadAssignmentValues {
        project_id: Uuid,
    }
}

columns! {
    struct AssignmentRow {
        namespace: String,
        namespace_phase: String,
        cluster_id: Option<String>,
    }
}

pub(crate) const READ_ASSIGNMENT: Statement<ReadAssignmentValues, AssignmentRow> = Statement::new(
    "assignment_reader.read",
    "SELECT namespace, namespace_phase, cluster_id
    FROM plexsphere.namespace_assignments
    WHERE project_id = $1",
);

#[async_trait]
impl AssignmentReader for PgPlatform {
    #[tracing::instrument(name = "db.namespace_assignment.read", skip_all, fields(%project))]
    async fn read(&self, project: ProjectId) -> Result<Option<NamespaceObservation>, PortError> {
        let mut connection = self.connection().await?;
        let values = ReadAssignmentValues { project_id: project.as_uuid() };
        let row =
            READ_ASSIGNMENT.optional(&mut connection, values).await.map_uncommitted_error()?;
        let Some(AssignmentRow { namespace, namespace_phase, cluster_id }) = row else {
            return Ok(None);
        };
        let invalid = |error| invalid_row("namespace_assignments", project, error);
        let phase = NamespacePhase::try_from(namespace_phase.as_str()).map_err(invalid)?;
        let observation = NamespaceObservation::new(namespace, phase);
        let cluster = cluster_id.map(ClusterId::new).transpose().map_err(invalid)?;
        Ok(Some(match cluster {
            Some(cluster) => observation.on_cluster(cluster),
            None => observation,
        }))
    }
}
