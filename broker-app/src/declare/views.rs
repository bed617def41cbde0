//! Resolves the references of a resource for rendering, at the declaration and in every pass that applies the substrate.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, ClusterId, Declaration, Error as DomainError,
    MeshRole, NotFound, Parameters, ProjectId, ProvisionedResource, ResourceId,
};
use broker_ports::{
    BlueprintVersionView, CloudView, CredentialView, NamespaceObservation, ResourceView,
};
use broker_render::{
    CloudTags, Identity, Manifest, ProviderConfigInput, ProviderConfigUse, ProviderProfiles,
    SharedConfigInput, Xr, XrInput, assigned_namespace, cloud_tags, provider_config, secret_name,
    shared_provider_config, xr,
};

use crate::deadline::TimedPorts;
use crate::error::Error;

#[derive(Debug, Clone, Copy)]
pub(crate) struct References {
    pub(crate) project: ProjectId,
    pub(crate) resource: ResourceId,
    pub(crate) credential: CloudCredentialId,
}

#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) blueprint: Arc<BlueprintVersionView>,
    credential: CredentialView,
    cloud: CloudView,
    tags: CloudTags,
}

/// Queries to the platform: catalog, assignments, credentials, clouds and labels.
impl TimedPorts {
    pub(crate) async fn blueprint(
        &self,
        id: BlueprintVersionId,
    ) -> Result<Arc<BlueprintVersionView>, Error> {
        let found = self.blueprints.read(|it| it.resolve(id)).await?;
        Ok(found.ok_or_else(|| id.not_found())?)
    }

    /// The Project's assignment; checks that it names the Project's own namespace.
    pub(crate) async fn assignment(
        &self,
        project: ProjectId,
    ) -> Result<NamespaceObservation, Error> {
        let found = self.assignments.read(|it| it.read(project)).await?;
        let assignment = found.ok_or_else(|| project.not_found())?;
        assigned_namespace(project, &assignment.namespace).map_err(Error::Platform)?;
        Ok(assignment)
    }

    /// Whether the Project's namespace takes objects, on whichever cluster it is.
    pub(crate) async fn namespace_is_ready(&self, project: ProjectId) -> Result<bool, Error> {
        Ok(self.assignment(project).await?.ready)
    }

    pub(crate) async fn namespace_is_ready_on(
        &self,
        project: ProjectId,
        cluster: &ClusterId,
    ) -> Result<bool, Error> {
        let assignment = self.assignment(project).await?;
        require_same_cluster(project, &assignment, cluster)?;
        Ok(assignment.ready)
    }

    pub(crate) async fn credential(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> Result<CredentialView, Error> {
        let found = self.credentials.read(|it| it.resolve(project, id)).await?;
        Ok(found.ok_or_else(|| id.not_found())?)
    }

    pub(crate) async fn cloud(&self, id: CloudId) -> Result<CloudView, Error> {
        let found = self.clouds.read(|it| it.resolve(id)).await?;
        Ok(found.ok_or_else(|| id.not_found())?)
    }

    pub(crate) async fn labels(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> Result<BTreeMap<String, String>, Error> {
        let found = self.labels.read(|it| it.resolve(project, resource)).await?;
        Ok(found.ok_or_else(|| resource.not_found())?.labels)
    }

    /// The labels of many Resources, in request order.
    pub(crate) async fn labels_of_many(
        &self,
        resources: &[(ProjectId, ResourceId)],
    ) -> Result<Vec<Result<BTreeMap<String, String>, Error>>, Error> {
        let results = self.labels.read(|it| it.resolve_many(resources)).await?;
        let to_labels =
            |(result, (_, resource)): (Result<Option<ResourceView>, _>, &(_, ResourceId))| {
                let found = result.map_err(self.labels.to_error())?;
                Ok(found.ok_or_else(|| resource.not_found())?.labels)
            };
        Ok(results.into_iter().zip(resources).map(to_labels).collect())
    }

    pub(crate) async fn views(
        &self,
        references: References,
        blueprint: Arc<BlueprintVersionView>,
    ) -> Result<Views, Error> {
        let credential = self.credential(references.project, references.credential).await?;
        let cloud = self.cloud(credential.cloud_id).await?;
        let labels = self.labels(references.project, references.resource).await?;
        Ok(Views::new(blueprint, credential, cloud, &labels))
    }
}

/// Refuses a Project that is assigned to another cluster. On a platform with one cluster, assignments name no cluster.
pub(crate) fn require_same_cluster(
    project: ProjectId,
    assignment: &NamespaceObservation,
    here: &ClusterId,
) -> Result<(), DomainError> {
    match &assignment.cluster {
        Some(assigned) if assigned != here => Err(DomainError::ClusterMismatch(project)),
        Some(_) | None => Ok(()),
    }
}

impl References {
    pub(crate) const fn of_resource(resource: &ProvisionedResource) -> Self {
        Self {
            project: resource.project_id(),
            resource: resource.resource_id(),
            credential: resource.cloud_credential_id(),
        }
    }

    pub(crate) const fn of_declaration(declaration: &Declaration) -> Self {
        Self {
            project: declaration.project_id,
            resource: declaration.resource_id,
            credential: declaration.cloud_credential_id,
        }
    }
}

/// A rendering error is a fault of the platform's data, such as an invalid endpoint. Only an invalid parameter is the
/// caller's fault: an XRD may allow fewer values than the blueprint's schema.
fn unrenderable(error: DomainError) -> Error {
    let is_parameter = matches!(
        &error,
        DomainError::InvalidInput { field, .. } if field.starts_with("spec.parameters.")
    );
    if is_parameter { Error::Domain(error) } else { Error::Platform(error) }
}

impl Views {
    pub(crate) fn new(
        blueprint: Arc<BlueprintVersionView>,
        credential: CredentialView,
        cloud: CloudView,
        labels: &BTreeMap<String, String>,
    ) -> Self {
        let tags = cloud_tags(&cloud.provider, labels);
        Self { blueprint, credential, cloud, tags }
    }

    /// The composite resource, before it becomes a shell or armed.
    pub(crate) fn xr<'a>(&'a self, resource: &'a ProvisionedResource) -> Result<Xr<'a>, Error> {
        self.render(identity(resource), resource.mesh_role(), resource.parameters())
    }

    pub(crate) fn render<'a>(
        &'a self,
        identity: Identity,
        mesh_role: MeshRole,
        parameters: &'a Parameters,
    ) -> Result<Xr<'a>, Error> {
        let rendered = xr(&XrInput {
            xrd: &self.blueprint.xrd,
            composition: self.blueprint.composition.clone(),
            injection_strategy: self.blueprint.injection_strategy,
            mesh_role,
            identity,
            parameters,
            tags: &self.tags,
        });
        rendered.map_err(unrenderable)
    }

    /// The ProviderConfig that the broker writes for a resource, of its own or shared; `None` if the platform owns it.
    pub(crate) fn provider_config(
        &self,
        resource: &ProvisionedResource,
        profiles: &ProviderProfiles,
    ) -> Result<Option<Manifest>, Error> {
        let profile = &profiles.of(&self.cloud.provider);
        let endpoint = &self.cloud.endpoint;
        let secret_name = &secret_name(&self.credential.kv_mount, &self.credential.kv_path);
        let rendered = match &self.blueprint.provider_config {
            ProviderConfigUse::PerResource => provider_config(&ProviderConfigInput {
                profile,
                identity: identity(resource),
                endpoint,
                secret_name,
            }),
            ProviderConfigUse::Shared(name) => shared_provider_config(&SharedConfigInput {
                profile,
                project: resource.project_id(),
                name,
                endpoint,
                secret_name,
            }),
            ProviderConfigUse::Platform => return Ok(None),
        };
        rendered.map(Some).map_err(Error::Platform)
    }
}

fn identity(resource: &ProvisionedResource) -> Identity {
    Identity {
        resource: resource.id(),
        project: resource.project_id(),
        blueprint_version: resource.blueprint_version_id(),
    }
}
