//! Rows of other contexts: blueprints, clouds, credentials, assignments, Resources.

use std::collections::BTreeMap;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, ClusterId, ProjectId, ResourceId,
};
use broker_ports::{
    ApprovalState, AssignmentReader, BlueprintResolver, BlueprintState, CloudResolver, CloudView,
    CredentialResolver, CredentialState, CredentialView, NamespaceObservation, PortError,
    ResourceReader, ResourceView,
};
use broker_render::Provider;
use broker_testkit::resolvers::{
    AssignmentReaderUnderTest, BlueprintResolverUnderTest, CloudResolverUnderTest,
    CredentialResolverUnderTest, RawBlueprint, ResourceReaderUnderTest,
};

use super::World;

impl World {
    pub(in super::super) async fn new_project(&self) -> Result<ProjectId, PortError> {
        let insert =
            sqlx::query_scalar("INSERT INTO plexsphere.projects DEFAULT VALUES RETURNING id");
        Ok(ProjectId::new(self.insert(insert).await?)?)
    }

    async fn new_cloud(&self, provider: &str, endpoint: &str) -> Result<CloudId, PortError> {
        let insert = "INSERT INTO plexsphere.clouds (provider, endpoint) \
                      VALUES ($1, $2::text::jsonb) RETURNING id";
        let insert = sqlx::query_scalar(insert).bind(provider).bind(endpoint);
        Ok(CloudId::new(self.insert(insert).await?)?)
    }

    pub(in super::super) async fn new_resource_of(
        &self,
        project: ProjectId,
        handle: &str,
    ) -> Result<ResourceId, PortError> {
        let insert =
            "INSERT INTO plexsphere.resources (project_id, handle) VALUES ($1, $2) RETURNING id";
        let insert = sqlx::query_scalar(insert).bind(project.as_uuid()).bind(handle);
        Ok(ResourceId::new(self.insert(insert).await?)?)
    }

    async fn label(
        &self,
        resource: ResourceId,
        labels: &BTreeMap<String, String>,
        propagate: bool,
    ) -> Result<(), PortError> {
        let insert = "INSERT INTO plexsphere.resource_labels VALUES ($1, $2, $3, $4)";
        for (key, value) in labels {
            let insert = sqlx::query(insert).bind(resource.as_uuid()).bind(key).bind(value);
            self.execute(insert.bind(propagate)).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl BlueprintResolverUnderTest for World {
    fn resolver(&self) -> &dyn BlueprintResolver {
        &self.platform
    }

    async fn publish(&self, blueprint: &RawBlueprint) -> Result<BlueprintVersionId, PortError> {
        let insert = "INSERT INTO plexsphere.blueprint_versions
            (slug, version, display_name, description, provider_kinds, injection_strategy, mesh_role,
             parameter_schema, metadata, xrd, composition, provider_config)
            VALUES (gen_random_uuid()::text, 'v1', '', '', '{hetzner}', $1, $2, $3::text::json, '', $4, $5, $6)
            RETURNING id";
        let insert = sqlx::query_scalar(insert)
            .bind(blueprint.injection_strategy.as_str())
            .bind(blueprint.mesh_role.as_str())
            .bind(blueprint.parameter_schema)
            .bind(blueprint.xrd.as_bytes())
            .bind(blueprint.composition.as_bytes())
            .bind(blueprint.provider_config);
        Ok(BlueprintVersionId::new(self.insert(insert).await?)?)
    }

    async fn set_state(
        &self,
        id: BlueprintVersionId,
        state: BlueprintState,
    ) -> Result<(), PortError> {
        let update = "UPDATE plexsphere.blueprint_versions SET state = $2 WHERE id = $1";
        self.execute(sqlx::query(update).bind(id.as_uuid()).bind(state.as_str())).await.map(drop)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.close_pool().await
    }
}

#[async_trait]
impl CloudResolverUnderTest for World {
    fn resolver(&self) -> &dyn CloudResolver {
        &self.platform
    }

    async fn add(&self, provider: &Provider, endpoint: &str) -> Result<CloudView, PortError> {
        let id = self.new_cloud(provider.as_str(), endpoint).await?;
        Ok(CloudView::new(id, provider.clone(), endpoint))
    }

    async fn corrupt(&self, id: CloudId) -> Result<bool, PortError> {
        let corrupt = "UPDATE plexsphere.clouds SET provider = 'No Such Provider' WHERE id = $1";
        Ok(self.execute(sqlx::query(corrupt).bind(id.as_uuid())).await? == 1)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.close_pool().await
    }
}

#[async_trait]
impl CredentialResolverUnderTest for World {
    fn resolver(&self) -> &dyn CredentialResolver {
        &self.platform
    }

    async fn project(&self) -> Result<ProjectId, PortError> {
        self.new_project().await
    }

    async fn add(&self, kv_mount: &str, kv_path: &str) -> Result<CredentialView, PortError> {
        let cloud = self.new_cloud("hetzner", "{}").await?;
        let insert = "INSERT INTO plexsphere.cloud_credentials (cloud_id, kv_mount, kv_path) \
                      VALUES ($1, $2, $3) RETURNING id";
        let insert = sqlx::query_scalar(insert).bind(cloud.as_uuid()).bind(kv_mount).bind(kv_path);
        let id = CloudCredentialId::new(self.insert(insert).await?)?;
        Ok(CredentialView::new(id, cloud, kv_mount, kv_path))
    }

    async fn assign(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError> {
        let insert = "INSERT INTO plexsphere.cloud_credential_assignments \
                      (project_id, cloud_credential_id) VALUES ($1, $2)";
        self.execute(sqlx::query(insert).bind(project.as_uuid()).bind(id.as_uuid())).await.map(drop)
    }

    async fn set_states(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
        (state, approval): (CredentialState, ApprovalState),
    ) -> Result<(), PortError> {
        let update = "WITH changed AS (
                UPDATE plexsphere.cloud_credentials SET state = $3 WHERE id = $2
            )
            UPDATE plexsphere.cloud_credential_assignments SET state = $4
            WHERE project_id = $1 AND cloud_credential_id = $2";
        let update = sqlx::query(update).bind(project.as_uuid()).bind(id.as_uuid());
        self.execute(update.bind(state.as_str()).bind(approval.as_str())).await.map(drop)
    }

    async fn withdraw(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError> {
        let delete = "DELETE FROM plexsphere.cloud_credential_assignments \
                      WHERE project_id = $1 AND cloud_credential_id = $2";
        self.execute(sqlx::query(delete).bind(project.as_uuid()).bind(id.as_uuid())).await.map(drop)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.close_pool().await
    }
}

#[async_trait]
impl AssignmentReaderUnderTest for World {
    fn reader(&self) -> &dyn AssignmentReader {
        &self.platform
    }

    async fn project(&self) -> Result<ProjectId, PortError> {
        self.new_project().await
    }

    async fn place(
        &self,
        project: ProjectId,
        namespace: &NamespaceObservation,
    ) -> Result<(), PortError> {
        let upsert = "INSERT INTO plexsphere.namespace_assignments \
                      (project_id, namespace, namespace_phase, cluster_id) VALUES ($1, $2, $3, $4)
                      ON CONFLICT (project_id) DO UPDATE
                      SET namespace = excluded.namespace, namespace_phase = excluded.namespace_phase,
                          cluster_id = excluded.cluster_id";
        let cluster = namespace.cluster.as_ref().map(ClusterId::as_str);
        let upsert = sqlx::query(upsert).bind(project.as_uuid()).bind(&namespace.namespace);
        self.execute(upsert.bind(namespace.phase.as_str()).bind(cluster)).await.map(drop)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.close_pool().await
    }
}

#[async_trait]
impl ResourceReaderUnderTest for World {
    fn reader(&self) -> &dyn ResourceReader {
        &self.platform
    }

    async fn resource(&self, view: &ResourceView) -> Result<(ProjectId, ResourceId), PortError> {
        let project = self.new_project().await?;
        let resource = self.new_resource_of(project, view.handle.as_str()).await?;
        self.label(resource, &view.labels, true).await?;
        Ok((project, resource))
    }

    async fn corrupt(&self, resource: ResourceId) -> Result<bool, PortError> {
        let spoil = "UPDATE plexsphere.resources SET handle = 'two words' WHERE id = $1";
        Ok(self.execute(sqlx::query(spoil).bind(resource.as_uuid())).await? == 1)
    }

    async fn add_local_labels(
        &self,
        resource: ResourceId,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), PortError> {
        self.label(resource, labels, false).await
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.close_pool().await
    }
}
