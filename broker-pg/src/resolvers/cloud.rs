//! Declare: resolves clouds.

use async_trait::async_trait;
use broker_domain::CloudId;
use broker_ports::{CloudResolver, CloudView, PortError};
use broker_render::Provider;
use uuid::Uuid;

use super::PgPlatform;
use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};

params! {
    struct ResolveCloudValues {
        id: Uuid,
    }
}

columns! {
    struct CloudRow {
        provider: String,
        endpoint: String,
    }
}

pub(crate) const RESOLVE_CLOUD: Statement<ResolveCloudValues, CloudRow> = Statement::new(
    "cloud_resolver.resolve",
    "SELECT provider, endpoint::text FROM plexsphere.clouds WHERE id = $1",
);

#[async_trait]
impl CloudResolver for PgPlatform {
    #[tracing::instrument(name = "db.cloud.resolve", skip_all, fields(cloud = %id))]
    async fn resolve(&self, id: CloudId) -> Result<Option<CloudView>, PortError> {
        let mut connection = self.connection().await?;
        let values = ResolveCloudValues { id: id.as_uuid() };
        let row = RESOLVE_CLOUD.optional(&mut connection, values).await.map_uncommitted_error()?;
        let Some(CloudRow { provider, endpoint }) = row else { return Ok(None) };
        let provider =
            Provider::new(&provider).map_err(|error| invalid_row("clouds", id, error))?;
        Ok(Some(CloudView::new(id, provider, endpoint)))
    }
}
