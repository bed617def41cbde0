//! Declare: what the neighbours know, read across the boundary in our own words.
//!
//! Every view is plain data without secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, ClusterId, MeshRole, ProjectId, ResourceId,
};
use broker_render::catalog::ComposedKind;
use broker_render::{CompositionName, InjectionStrategy, ParameterSchema, Provider, Xrd};

use crate::error::PortError;

/// Finds published blueprint versions.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait BlueprintResolver: Send + Sync {
    /// The version of that id; `None` if it was never published. **Implementer**: a published version never changes, so it may be cached for
    /// as long as one likes; XRD and schema are parsed once.
    ///
    /// # Errors
    ///
    /// `Transient` when nobody could be asked; nothing is concluded from that. `Rejected`, with the domain
    /// error as its source, when what is stored cannot be read: that concerns the resources which use it, and
    /// nobody else.
    async fn resolve(
        &self,
        id: BlueprintVersionId,
    ) -> Result<Option<Arc<BlueprintVersionView>>, PortError>;
}

/// Finds clouds.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait CloudResolver: Send + Sync {
    /// The cloud of that id; `None` if the inventory has none.
    ///
    /// # Errors
    ///
    /// `Transient` when nobody could be asked; nothing is concluded from that. `Rejected`, with the domain
    /// error as its source, when what is stored cannot be read: that concerns the resources which use it, and
    /// nobody else.
    async fn resolve(&self, id: CloudId) -> Result<Option<CloudView>, PortError>;
}

/// Finds cloud credentials.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait CredentialResolver: Send + Sync {
    /// The credential of that id, if it is assigned to the Project. **Implementer**: one that exists and is
    /// not assigned is `None`, exactly like one that does not exist.
    ///
    /// # Errors
    ///
    /// `Transient` when nobody could be asked; nothing is concluded from that. There is nothing here that could not
    /// be read: rendering looks at the words.
    async fn resolve(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> Result<Option<CredentialView>, PortError>;
}

/// Reads where a Project lives on the management cluster.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait AssignmentReader: Send + Sync {
    /// The Project's namespace, whether it can take objects, and on which cluster it is; `None` if the Project was
    /// not placed.
    ///
    /// # Errors
    ///
    /// `Transient` when nobody could be asked; nothing is concluded from that. There is nothing here that could not
    /// be read: rendering looks at the words.
    async fn read(&self, project: ProjectId) -> Result<Option<NamespaceObservation>, PortError>;
}

/// Reads Resources within their Project, with the labels that become tags on the cloud.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait LabelTagResolver: Send + Sync {
    /// The Resource of that id, if it belongs to the Project. **Implementer**: a Resource of another Project is
    /// `None`, exactly like one that does not exist, so that no caller learns of another Project's Resources.
    ///
    /// # Errors
    ///
    /// `Transient` when the source could not be reached; callers conclude nothing from it. Never `Rejected`: labels
    /// are validated during rendering.
    async fn resolve(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> Result<Option<ResourceView>, PortError>;

    /// The same for many, one answer each, in their order. **Implementer**: one question where it can be; a sweep
    /// asks for a page of rows at a time, and gives this no more time than a question about one.
    ///
    /// # Errors
    ///
    /// When no answer could be had at all; what is unknown of one Resource only is that Resource's own error, and
    /// the others keep their answers, as the default has it.
    async fn resolve_many(
        &self,
        resources: &[(ProjectId, ResourceId)],
    ) -> Result<Vec<Result<Option<ResourceView>, PortError>>, PortError> {
        let mut answers = Vec::with_capacity(resources.len());
        for (project, resource) in resources {
            answers.push(self.resolve(*project, *resource).await);
        }
        Ok(answers)
    }
}

/// A published blueprint version.
#[derive(Debug)]
#[non_exhaustive]
pub struct BlueprintVersionView {
    /// Its id.
    pub id: BlueprintVersionId,
    /// The kind of its composite resource, and what it may hold.
    pub xrd: Arc<Xrd>,
    /// The name of its Composition, which its composite resources pin.
    pub composition: CompositionName,
    /// Which parameters it takes.
    pub parameter_schema: Arc<ParameterSchema>,
    /// How a bootstrap token gets into it.
    pub injection_strategy: InjectionStrategy,
    /// Whether a Node comes of it.
    pub mesh_role: MeshRole,
    /// The kinds that its Composition makes, as far as they are known.
    pub composed_kinds: Arc<[ComposedKind]>,
}

impl BlueprintVersionView {
    /// A version whose Composition makes kinds that nobody knows.
    pub fn new(
        id: BlueprintVersionId,
        xrd: Arc<Xrd>,
        composition: CompositionName,
        parameter_schema: Arc<ParameterSchema>,
        injection_strategy: InjectionStrategy,
        mesh_role: MeshRole,
    ) -> Self {
        let composed_kinds = Arc::new([]);
        Self {
            id,
            xrd,
            composition,
            parameter_schema,
            injection_strategy,
            mesh_role,
            composed_kinds,
        }
    }

    /// With the kinds that its Composition makes.
    #[must_use]
    pub fn composing(mut self, kinds: impl Into<Arc<[ComposedKind]>>) -> Self {
        self.composed_kinds = kinds.into();
        self
    }
}

/// A cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudView {
    /// Its id.
    pub id: CloudId,
    /// Which provider it is of, such as `hetzner`.
    pub provider: Provider,
    /// Where it is reached: the text of a JSON object without secrets, which goes into the ProviderConfig
    /// as it is.
    pub endpoint: String,
}

impl CloudView {
    /// A cloud of a provider.
    pub fn new(id: CloudId, provider: Provider, endpoint: impl Into<String>) -> Self {
        Self { id, provider, endpoint: endpoint.into() }
    }
}

/// A cloud credential: where it lies, never what it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CredentialView {
    /// Its id.
    pub id: CloudCredentialId,
    /// The cloud that it is for.
    pub cloud_id: CloudId,
    /// The mount of the key-value store that holds it.
    pub kv_mount: String,
    /// Its path there.
    pub kv_path: String,
}

impl CredentialView {
    /// A credential for a cloud, at a place of the key-value store.
    pub fn new(
        id: CloudCredentialId,
        cloud_id: CloudId,
        kv_mount: impl Into<String>,
        kv_path: impl Into<String>,
    ) -> Self {
        Self { id, cloud_id, kv_mount: kv_mount.into(), kv_path: kv_path.into() }
    }
}

/// A Resource of a Project, as far as provisioning needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResourceView {
    /// The labels that propagate, after inheritance.
    pub labels: BTreeMap<String, String>,
}

impl ResourceView {
    /// A Resource with the labels that propagate.
    pub const fn new(labels: BTreeMap<String, String>) -> Self {
        Self { labels }
    }
}

/// A Project's namespace, as its owner reports it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NamespaceObservation {
    /// The namespace that the assignment names. Rendering refuses any but the Project's own.
    pub namespace: String,
    /// It exists and can take objects.
    pub ready: bool,
    /// The management cluster that it is on; `None` on a platform that has only one and does not name it.
    pub cluster: Option<ClusterId>,
}

impl NamespaceObservation {
    /// A namespace and its readiness, on a cluster without a name.
    pub fn new(namespace: impl Into<String>, ready: bool) -> Self {
        Self { namespace: namespace.into(), ready, cluster: None }
    }

    /// On a management cluster that the platform names.
    #[must_use]
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = Some(cluster);
        self
    }
}
