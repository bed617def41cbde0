//! Persist on Postgres: the repository port. The submodules implement its methods.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod purge;
pub(crate) mod read;
pub(crate) mod replace;
pub(crate) mod row;
pub(crate) mod shared_config;
pub(crate) mod sweep;
pub(crate) mod write;

use async_trait::async_trait;
use broker_domain::{
    BootstrapTokenId, ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_ports::{
    Admitted, Attribution, AuditRecord, Created, DeletionMark, ListPage, ListQuery, PortError,
    PurgeRequest, Replaced, Replacement, Repository, SharedConfig, SharedConfigRef, StoredRequest,
    SweepPage, SweepQuery, Write, WriteKind, Written,
};

use crate::store::PgStore;

#[async_trait]
impl Repository for PgStore {
    #[tracing::instrument(name = "db.provisioned_resource.create", skip_all, fields(resource = %admitted.change().resource().id()))]
    async fn create(&self, admitted: &Admitted) -> Result<Created, PortError> {
        self.insert_new(admitted).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.get_by_id", skip_all, fields(resource = %id))]
    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.select_by_id(id).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.get_in_project", skip_all, fields(resource = %id))]
    async fn get_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.select_in_project(project, id).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.get_by_request", skip_all)]
    async fn get_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError> {
        self.select_by_request(project, request).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.get_by_token", skip_all)]
    async fn get_by_token(
        &self,
        token: BootstrapTokenId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        self.select_by_token(token).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.list", skip_all)]
    async fn list(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        self.select_page(query).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.sweep_page", skip_all)]
    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        self.select_sweep_page(query).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.write", skip_all, fields(resource = %write.change.resource().id(), kind = kind.as_str()))]
    async fn write(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        self.update_row(kind, write).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.replace", skip_all, fields(resource = %replacement.admitted().change().resource().id()))]
    async fn replace(&self, replacement: &Replacement) -> Result<Replaced, PortError> {
        self.insert_replacement(replacement).await
    }

    #[tracing::instrument(name = "db.shared_config.get", skip_all, fields(resource = %user))]
    async fn shared_config(
        &self,
        user: ProvisionedResourceId,
    ) -> Result<Option<SharedConfig>, PortError> {
        self.select_shared_config(user).await
    }

    #[tracing::instrument(name = "db.shared_config.list", skip_all)]
    async fn shared_configs(
        &self,
        names: &[SharedConfigRef],
    ) -> Result<Vec<SharedConfig>, PortError> {
        self.select_shared_configs(names).await
    }

    #[tracing::instrument(name = "db.shared_config.mark", skip_all)]
    async fn mark_shared_config(
        &self,
        name: &SharedConfigRef,
        current: Option<DeletionMark>,
    ) -> Result<Option<DeletionMark>, PortError> {
        self.set_config_mark(name, current).await
    }

    #[tracing::instrument(name = "db.shared_config.clear", skip_all)]
    async fn clear_shared_config(
        &self,
        name: &SharedConfigRef,
        mark: DeletionMark,
    ) -> Result<(), PortError> {
        self.clear_config_mark(name, mark).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.history", skip_all, fields(resource = %id))]
    async fn history(&self, id: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError> {
        self.select_history(id).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.scrub_audit", skip_all, fields(resource = %id))]
    async fn scrub_audit(
        &self,
        id: ProvisionedResourceId,
        by: &Attribution,
    ) -> Result<u64, PortError> {
        self.blank_event_data(id, by).await
    }

    #[tracing::instrument(name = "db.provisioned_resource.purge_deleted", skip_all)]
    async fn purge_deleted(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        self.delete_purgeable(request).await
    }
}
