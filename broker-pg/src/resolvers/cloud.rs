//! Declare: resolves clouds.

use async_trait::async_trait;
use broker_domain::CloudId;
use broker_ports::{CloudResolver, CloudView, PortError};
use broker_render::Provider;
use uuid::Uuid;

use super::PgPlatform;
use crate::error::{Classified, drifted};
use crate::sql::{Statement, columns, params};

params! {
    struct ResolveCloud {
        id: Uuid,
    }
}

columns! {
    struct CloudRow {
        provider: String,
        endpoint: String,
    }
}

pub(crate) const RESOLVE_CLOUD: Statement<ResolveCloud, CloudRow> = Statement::new(
    "cloud_resolver.resolve",
    "SELECT provider, endpoint::text FROM plexsphere.clouds WHERE id = $1",
);

#[async_trait]
impl CloudResolver for PgPlatform {
    #[tracing::instrument(name = "db.cloud.resolve", skip_all, fields(cloud = %id))]
    async fn resolve(&self, id: CloudId) -> Result<Option<CloudView>, PortError> {
        let mut connection = self.connection().await?;
        let asked = ResolveCloud { id: id.as_uuid() };
        let row = RESOLVE_CLOUD.optional(&mut connection, asked).await.harmless()?;
        let Some(CloudRow { provider, endpoint }) = row else { return Ok(None) };
        let provider = Provider::new(&provider).map_err(|error| drifted("clouds", id, error))?;
        Ok(Some(CloudView::new(id, provider, endpoint)))
    }
}
