//! The references of a resource, resolved for rendering: by the declaration, and again by every pass.

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
    CloudTags, Identity, Manifest, ProviderConfigInput, ProviderProfiles, Xr, XrInput,
    assigned_namespace, cloud_tags, provider_config, secret_name, xr,
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

/// Queries to the platform's other contexts.
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

    /// Whether the Project's namespace takes objects, on any cluster.
    pub(crate) async fn namespace_is_ready(&self, project: ProjectId) -> Result<bool, Error> {
        Ok(self.assignment(project).await?.ready)
    }

    pub(crate) async fn namespace_is_ready_on(
        &self,
        project: ProjectId,
        cluster: &ClusterId,
    ) -> Result<bool, Error> {
        let assignment = self.assignment(project).await?;
        expect_here(project, &assignment, cluster)?;
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
        let answers = self.labels.read(|it| it.resolve_many(resources)).await?;
        let named =
            |(answer, (_, resource)): (Result<Option<ResourceView>, _>, &(_, ResourceId))| {
                let found = answer.map_err(self.labels.failed())?;
                Ok(found.ok_or_else(|| resource.not_found())?.labels)
            };
        Ok(answers.into_iter().zip(resources).map(named).collect())
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

/// Refuses a Project that is assigned to another cluster. A platform with one cluster names none.
pub(crate) fn expect_here(
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
    pub(crate) const fn of(resource: &ProvisionedResource) -> Self {
        Self {
            project: resource.project_id(),
            resource: resource.resource_id(),
            credential: resource.cloud_credential_id(),
        }
    }

    pub(crate) const fn in_declaration(declaration: &Declaration) -> Self {
        Self {
            project: declaration.project_id,
            resource: declaration.resource_id,
            credential: declaration.cloud_credential_id,
        }
    }
}

/// The parameters fit the blueprint's schema before anything is rendered. So a failure to render is a fault of the
/// platform's data: the XRD contradicts that schema, or the cloud's endpoint is unfit.
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
        rendered.map_err(Error::Platform)
    }

    pub(crate) fn provider_config(
        &self,
        resource: &ProvisionedResource,
        profiles: &ProviderProfiles,
    ) -> Result<Manifest, Error> {
        let rendered = provider_config(&ProviderConfigInput {
            profile: &profiles.of(&self.cloud.provider),
            identity: identity(resource),
            endpoint: &self.cloud.endpoint,
            secret_name: &secret_name(&self.credential.kv_mount, &self.credential.kv_path),
        });
        rendered.map_err(Error::Platform)
    }
}

fn identity(resource: &ProvisionedResource) -> Identity {
    Identity {
        resource: resource.id(),
        project: resource.project_id(),
        blueprint_version: resource.blueprint_version_id(),
    }
}
