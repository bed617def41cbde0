//! Stage 1, declare, and again in every pass: what a resource is rendered from.

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, Declaration, Error as DomainError, MeshRole, NotFound,
    Parameters, ProjectId, ProvisionedResource, ResourceId,
};
use broker_ports::{
    AssignmentReader, BlueprintResolver, BlueprintVersionView, CloudResolver, CloudView,
    CredentialResolver, CredentialView, LabelTagResolver, PortName, ReconcilerPorts, ServicePorts,
};
use broker_render::{
    CloudTags, Identity, Manifest, ProviderConfigInput, ProviderProfiles, Xr, XrInput,
    assigned_namespace, cloud_tags, provider_config, secret_name, xr,
};

use crate::call::{Kind, call};
use crate::error::Error;

/// Who knows what a resource is rendered from, and how long to wait for them.
#[derive(Clone, Copy)]
pub(crate) struct Resolvers<'a> {
    blueprints: &'a dyn BlueprintResolver,
    clouds: &'a dyn CloudResolver,
    credentials: &'a dyn CredentialResolver,
    labels: &'a dyn LabelTagResolver,
    assignments: &'a dyn AssignmentReader,
    patience: Duration,
}

/// What a resource, stored or only declared, refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct References {
    pub(crate) project: ProjectId,
    pub(crate) resource: ResourceId,
    pub(crate) credential: CloudCredentialId,
}

/// Everything that a resource's objects are rendered from, resolved.
#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) blueprint: Arc<BlueprintVersionView>,
    credential: CredentialView,
    cloud: CloudView,
    tags: CloudTags,
}

impl<'a> Resolvers<'a> {
    pub(crate) fn of_reconciler(ports: &'a ReconcilerPorts, patience: Duration) -> Self {
        Self {
            blueprints: &*ports.blueprints,
            clouds: &*ports.clouds,
            credentials: &*ports.credentials,
            labels: &*ports.labels,
            assignments: &*ports.assignments,
            patience,
        }
    }

    pub(crate) fn of_service(ports: &'a ServicePorts, patience: Duration) -> Self {
        Self {
            blueprints: &*ports.blueprints,
            clouds: &*ports.clouds,
            credentials: &*ports.credentials,
            labels: &*ports.labels,
            assignments: &*ports.assignments,
            patience,
        }
    }

    /// The blueprint version of that id.
    pub(crate) async fn blueprint(
        self,
        id: BlueprintVersionId,
    ) -> Result<Arc<BlueprintVersionView>, Error> {
        let found = self.blueprints.resolve(id);
        let found = call(PortName::BlueprintResolver, Kind::Read, self.patience, found).await?;
        Ok(found.ok_or_else(|| id.not_found())?)
    }

    /// Whether the Project's namespace takes objects.
    pub(crate) async fn namespace_is_ready(self, project: ProjectId) -> Result<bool, Error> {
        let found = self.assignments.read(project);
        let found = call(PortName::AssignmentReader, Kind::Read, self.patience, found).await?;
        let assignment = found.ok_or_else(|| project.not_found())?;
        assigned_namespace(project, &assignment.namespace)?;
        Ok(assignment.ready)
    }

    /// Everything else: the credential, its cloud, and the labels that become tags.
    pub(crate) async fn views(
        self,
        references: References,
        blueprint: Arc<BlueprintVersionView>,
    ) -> Result<Views, Error> {
        let id = references.credential;
        let credential = self.credentials.resolve(references.project, id);
        let credential = call(PortName::CredentialResolver, Kind::Read, self.patience, credential)
            .await?
            .ok_or_else(|| id.not_found())?;
        let cloud = self.clouds.resolve(credential.cloud_id);
        let cloud = call(PortName::CloudResolver, Kind::Read, self.patience, cloud)
            .await?
            .ok_or_else(|| credential.cloud_id.not_found())?;
        let labels = self.labels.resolve(references.resource);
        let labels = call(PortName::LabelTagResolver, Kind::Read, self.patience, labels).await?;
        let tags = cloud_tags(&cloud.provider, &labels);
        Ok(Views { blueprint, credential, cloud, tags })
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

impl Views {
    /// The composite resource, before it becomes a shell or armed.
    pub(crate) fn xr<'a>(
        &'a self,
        resource: &'a ProvisionedResource,
    ) -> Result<Xr<'a>, DomainError> {
        self.render(identity(resource), resource.mesh_role(), resource.parameters())
    }

    /// The same, from the parts of a compact row.
    pub(crate) fn render<'a>(
        &'a self,
        identity: Identity,
        mesh_role: MeshRole,
        parameters: &'a Parameters,
    ) -> Result<Xr<'a>, DomainError> {
        xr(&XrInput {
            xrd: &self.blueprint.xrd,
            injection_strategy: self.blueprint.injection_strategy,
            mesh_role,
            identity,
            parameters,
            tags: &self.tags,
        })
    }

    /// The ProviderConfig.
    pub(crate) fn provider_config(
        &self,
        resource: &ProvisionedResource,
        profiles: &ProviderProfiles,
    ) -> Result<Manifest, DomainError> {
        provider_config(&ProviderConfigInput {
            profile: &profiles.of(&self.cloud.provider),
            identity: identity(resource),
            endpoint: &self.cloud.endpoint,
            secret_name: &secret_name(&self.credential.kv_mount, &self.credential.kv_path),
        })
    }
}

fn identity(resource: &ProvisionedResource) -> Identity {
    Identity {
        resource: resource.id(),
        project: resource.project_id(),
        blueprint_version: resource.blueprint_version_id(),
    }
}
