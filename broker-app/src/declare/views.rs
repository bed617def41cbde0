//! Resolves the references of a resource for rendering, at the declaration and in every pass that applies the substrate.

use std::sync::Arc;

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, ClusterId, Declaration, Error as DomainError,
    MeshRole, NotFound, Parameters, ProjectId, ProvisionedResource, ResourceHandle, ResourceId,
};
use broker_ports::{
    BlueprintState, BlueprintVersionView, CloudView, CredentialView, NamespaceObservation,
    NamespacePhase, ResourceView, Withdrawal,
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
    handle: Option<ResourceHandle>,
}

/// Queries to the platform: catalog, assignments, credentials, clouds and Resources.
impl TimedPorts {
    pub(crate) async fn blueprint(
        &self,
        id: BlueprintVersionId,
    ) -> Result<Arc<BlueprintVersionView>, Error> {
        let found = self.blueprints.read(|it| it.resolve(id)).await?;
        Ok(found.ok_or_else(|| id.not_found())?)
    }

    /// Refuses a retired version.
    pub(crate) async fn require_active_blueprint(
        &self,
        id: BlueprintVersionId,
    ) -> Result<(), Error> {
        match self.blueprint_state(id).await? {
            BlueprintState::Active => Ok(()),
            BlueprintState::Retired => Err(DomainError::BlueprintRetired(id).into()),
        }
    }

    pub(crate) async fn blueprint_state(
        &self,
        id: BlueprintVersionId,
    ) -> Result<BlueprintState, Error> {
        let found = self.blueprints.read(|it| it.state(id)).await?;
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

    pub(crate) async fn namespace_phase_on(
        &self,
        project: ProjectId,
        cluster: &ClusterId,
    ) -> Result<NamespacePhase, Error> {
        let assignment = self.assignment(project).await?;
        require_same_cluster(project, &assignment, cluster)?;
        Ok(assignment.phase)
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

    pub(crate) async fn resource(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> Result<ResourceView, Error> {
        let found = self.resources.read(|it| it.read(project, resource)).await?;
        Ok(found.ok_or_else(|| resource.not_found())?)
    }

    /// Many Resources, in request order.
    pub(crate) async fn resources_of(
        &self,
        resources: &[(ProjectId, ResourceId)],
    ) -> Result<Vec<Result<ResourceView, Error>>, Error> {
        let results = self.resources.read(|it| it.read_many(resources)).await?;
        let to_view =
            |(result, (_, resource)): (Result<Option<ResourceView>, _>, &(_, ResourceId))| {
                let found = result.map_err(self.resources.to_error())?;
                Ok(found.ok_or_else(|| resource.not_found())?)
            };
        Ok(results.into_iter().zip(resources).map(to_view).collect())
    }

    pub(crate) async fn views(
        &self,
        references: References,
        blueprint: Arc<BlueprintVersionView>,
    ) -> Result<Views, Error> {
        let credential = self.credential(references.project, references.credential).await?;
        let cloud = self.cloud(credential.cloud_id).await?;
        let resource = self.resource(references.project, references.resource).await?;
        Ok(Views::new(blueprint, credential, cloud, Some(&resource)))
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
    /// Without a Resource there are no tags, as for a ProviderConfig.
    pub(crate) fn new(
        blueprint: Arc<BlueprintVersionView>,
        credential: CredentialView,
        cloud: CloudView,
        resource: Option<&ResourceView>,
    ) -> Self {
        let labels = resource.map(|resource| &resource.labels);
        let tags = labels.map(|labels| cloud_tags(&cloud.provider, labels)).unwrap_or_default();
        let handle = resource.map(|resource| resource.handle.clone());
        Self { blueprint, credential, cloud, tags, handle }
    }

    /// The handle with which the agent registers.
    pub(crate) fn handle(&self) -> Result<&ResourceHandle, Error> {
        self.handle.as_ref().ok_or(Error::Internal("an arm needs the view of its Resource"))
    }

    /// Why nothing more may be created with the credential.
    pub(crate) const fn withdrawal(&self) -> Option<Withdrawal> {
        self.credential.withdrawal()
    }

    /// Refuses a withdrawn credential.
    pub(crate) fn require_usable_credential(&self) -> Result<(), Error> {
        let id = self.credential.id;
        self.withdrawal().map_or(Ok(()), |withdrawal| Err(withdrawal.refusal(id).into()))
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
