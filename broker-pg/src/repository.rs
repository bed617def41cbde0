//! Stage 2 on Postgres: the aggregate in its store. The files say how each method does it; this one is the
//! port.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod purge;
pub(crate) mod read;
pub(crate) mod replace;
pub(crate) mod row;
pub(crate) mod sweep;
pub(crate) mod write;

use async_trait::async_trait;
use broker_domain::{ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId};
use broker_ports::{
    Admitted, Attribution, AuditRecord, Created, ListPage, ListQuery, PortError, PurgeRequest,
    Replaced, Replacement, Repository, StoredRequest, SweepPage, SweepQuery, Write, WriteKind,
    Written,
};

use crate::store::PgStore;

#[async_trait]
impl Repository for PgStore {
    #[tracing::instrument(name = "db.provisioned_resource.create", skip_all, fields(resource = %admitted.change().resource().id()))]
    async fn create(&self, admitted: &Admitted) -> Result<Created, PortError> {
        self.create(admitted).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.get_by_id", skip_all, fields(resource = %id))]
    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.get_by_id(id).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.get_in_project", skip_all, fields(resource = %id))]
    async fn get_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.get_in_project(project, id).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.get_by_request", skip_all)]
    async fn get_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError> {
        self.get_by_request(project, request).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.list", skip_all)]
    async fn list(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        self.list(query).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.sweep_page", skip_all)]
    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        self.sweep_page(query).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.update_phase", skip_all, fields(resource = %write.change.resource().id()))]
    async fn update_phase(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.write(WriteKind::Phase, write).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.record_token", skip_all, fields(resource = %write.change.resource().id()))]
    async fn record_token(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.write(WriteKind::Token, write).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.record_closed", skip_all, fields(resource = %write.change.resource().id()))]
    async fn record_closed(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.write(WriteKind::Closed, write).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.record_substrate", skip_all, fields(resource = %write.change.resource().id()))]
    async fn record_substrate(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.write(WriteKind::Substrate, write).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.record_retry", skip_all, fields(resource = %write.change.resource().id()))]
    async fn record_retry(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.write(WriteKind::Retry, write).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.record_deletion_intent", skip_all, fields(resource = %write.change.resource().id()))]
    async fn record_deletion_intent(&self, write: &Write<'_>) -> Result<Written, PortError> {
        self.write(WriteKind::DeletionIntent, write).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.replace", skip_all, fields(resource = %replacement.admitted().change().resource().id()))]
    async fn replace(&self, replacement: &Replacement) -> Result<Replaced, PortError> {
        self.replace(replacement).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.history", skip_all, fields(resource = %id))]
    async fn history(&self, id: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError> {
        self.history(id).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.scrub_audit", skip_all, fields(resource = %id))]
    async fn scrub_audit(
        &self,
        id: ProvisionedResourceId,
        by: &Attribution,
    ) -> Result<u64, PortError> {
        self.scrub_audit(id, by).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.purge_deleted", skip_all)]
    async fn purge_deleted(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        self.purge_deleted(request).await
    }
}
