//! Clouds.

use async_trait::async_trait;
use broker_domain::CloudId;
use broker_ports::{CloudResolver, CloudView, PortError};
use broker_render::Provider;

use super::PgNeighbours;
use crate::error::{Classified, drifted};

const RESOLVE_CLOUD: &str = "\
SELECT provider, endpoint::text FROM plexsphere.clouds WHERE id = $1";

#[async_trait]
impl CloudResolver for PgNeighbours {
    async fn resolve(&self, id: CloudId) -> Result<Option<CloudView>, PortError> {
        let row: Option<(String, String)> = sqlx::query_as(RESOLVE_CLOUD)
            .bind(id.as_uuid())
            .fetch_optional(&self.pool)
            .await
            .harmless()?;
        let Some((provider, endpoint)) = row else { return Ok(None) };
        let provider = Provider::new(&provider).map_err(|error| drifted("clouds", id, error))?;
        Ok(Some(CloudView::new(id, provider, endpoint)))
    }
}
