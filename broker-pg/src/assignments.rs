//! Stage 1, declare, and the gate before every apply: where a Project lives on the management cluster.

use async_trait::async_trait;
use broker_domain::ProjectId;
use broker_ports::{AssignmentReader, NamespaceObservation, PortError};
use uuid::Uuid;

use crate::error::Classified;
use crate::resolvers::PgNeighbours;
use crate::sql::{Statement, gives, takes};

takes! {
    struct ReadAssignment {
        project_id: Uuid,
    }
}

gives! {
    struct AssignmentRow {
        namespace: String,
        ready: bool,
    }
}

pub(crate) const READ_ASSIGNMENT: Statement<ReadAssignment, AssignmentRow> = Statement::new(
    "assignment_reader.read",
    "SELECT namespace, namespace_phase = 'Ready' AS ready
    FROM plexsphere.namespace_assignments
    WHERE project_id = $1",
);

#[async_trait]
impl AssignmentReader for PgNeighbours {
    #[tracing::instrument(name = "db.namespace_assignment.read", skip_all, fields(%project))]
    async fn read(&self, project: ProjectId) -> Result<Option<NamespaceObservation>, PortError> {
        let mut connection = self.connection().await?;
        let asked = ReadAssignment { project_id: project.as_uuid() };
        let row = READ_ASSIGNMENT.optional(&mut connection, asked).await.harmless()?;
        Ok(row
            .map(|AssignmentRow { namespace, ready }| NamespaceObservation::new(namespace, ready)))
    }
}
