//! Declare and act: reads the namespace of a Project on the management cluster.

use async_trait::async_trait;
use broker_domain::{ClusterId, ProjectId};
use broker_ports::{AssignmentReader, NamespaceObservation, PortError};
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
        ready: bool,
        cluster_id: Option<String>,
    }
}

pub(crate) const READ_ASSIGNMENT: Statement<ReadAssignmentValues, AssignmentRow> = Statement::new(
    "assignment_reader.read",
    "SELECT namespace, namespace_phase = 'Ready' AS ready, cluster_id
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
        let Some(AssignmentRow { namespace, ready, cluster_id }) = row else { return Ok(None) };
        let observation = NamespaceObservation::new(namespace, ready);
        let cluster = cluster_id.map(ClusterId::new).transpose();
        let cluster =
            cluster.map_err(|error| invalid_row("namespace_assignments", project, error))?;
        Ok(Some(match cluster {
            Some(cluster) => observation.on_cluster(cluster),
            None => observation,
        }))
    }
}
