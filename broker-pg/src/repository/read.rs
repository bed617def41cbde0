//! Persist on Postgres: reads one resource, by id or by request.

use broker_domain::{
    BootstrapTokenId, ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_ports::{PortError, StoredRequest};
use uuid::Uuid;

use super::row::{ResourceRow, resource_columns};
use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, params};
use crate::store::PgStore;

params! {
    struct IdValues {
        id: Uuid,
    }
}

params! {
    struct InProjectValues {
        project_id: Uuid,
        id: Uuid,
    }
}

params! {
    struct RequestValues<'a> {
        project_id: Uuid,
        request_id: &'a str,
    }
}

pub(crate) const GET_BY_ID: Statement<IdValues, ResourceRow> = Statement::new(
    "repository.get_by_id",
    concat!(
        "SELECT ",
        resource_columns!(),
        "\nFROM plexsphere.provisioned_resources WHERE id = $1"
    ),
);

/// Filters by Project in SQL, so that an unreadable row affects its own Project only.
pub(crate) const GET_IN_PROJECT: Statement<InProjectValues, ResourceRow> = Statement::new(
    "repository.get_in_project",
    concat!(
        "SELECT ",
        resource_columns!(),
        "\nFROM plexsphere.provisioned_resources WHERE project_id = $1 AND id = $2"
    ),
);

pub(crate) const GET_BY_REQUEST: Statement<RequestValues<'_>, ResourceRow> = Statement::new(
    "repository.get_by_request",
    concat!(
        "SELECT ",
        resource_columns!(),
        "\nFROM plexsphere.provisioned_resources WHERE project_id = $1 AND request_id = $2"
    ),
);

pub(crate) const GET_BY_TOKEN: Statement<IdValues, ResourceRow> = Statement::new(
    "repository.get_by_token",
    concat!(
        "SELECT ",
        resource_columns!(),
        "\nFROM plexsphere.provisioned_resources WHERE bootstrap_token_id = $1"
    ),
);

impl PgStore {
    pub(super) async fn select_by_token(
        &self,
        token: BootstrapTokenId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        let mut connection = self.connection().await?;
        let values = IdValues { id: token.as_uuid() };
        let row = GET_BY_TOKEN.optional(&mut connection, values).await.map_uncommitted_error()?;
        row.map(ResourceRow::into_resource).transpose()
    }

    pub(super) async fn select_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        let mut connection = self.connection().await?;
        let values = IdValues { id: id.as_uuid() };
        let row = GET_BY_ID.optional(&mut connection, values).await.map_uncommitted_error()?;
        row.map(ResourceRow::into_resource).transpose()
    }

    pub(super) async fn select_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        let mut connection = self.connection().await?;
        let values = InProjectValues { project_id: project.as_uuid(), id: id.as_uuid() };
        let row = GET_IN_PROJECT.optional(&mut connection, values).await.map_uncommitted_error()?;
        row.map(ResourceRow::into_resource).transpose()
    }

    pub(super) async fn select_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError> {
        let mut connection = self.connection().await?;
        let values = RequestValues { project_id: project.as_uuid(), request_id: request.as_str() };
        let row = GET_BY_REQUEST.optional(&mut connection, values).await.map_uncommitted_error()?;
        let Some(row) = row else { return Ok(None) };
        let (resource, hash) = row.into_parts()?;
        let hash = hash.ok_or_else(|| {
            let missing = broker_domain::Error::invalid("request_hash", "is missing");
            invalid_row("provisioned_resources", resource.id(), missing)
        })?;
        Ok(Some(StoredRequest::new(resource, hash)))
    }
}
