//! Declare: reads from the platform's contexts, translated into the broker's types.
//!
//! Every view is plain data without secrets. All methods are read-only, so a retry is safe.

mod states;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, ClusterId, MeshRole, ProjectId, ResourceHandle,
    ResourceId,
};
use broker_render::catalog::ComposedKind;
use broker_render::{
    CompositionName, InjectionStrategy, ParameterSchema, Provider, ProviderConfigUse, Xrd,
};

use crate::error::PortError;

pub use states::{ApprovalState, BlueprintState, CredentialState, NamespacePhase, Withdrawal};

/// Finds published blueprint versions.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait BlueprintResolver: Send + Sync {
    /// The version of an id; `None` if it was never published. **Implementer**: a published version is immutable, so it
    /// may be cached without a limit. Parse XRD and schema once.
    ///
    /// # Errors
    ///
    /// - `Transient`: the source could not be reached; callers conclude nothing from it.
    /// - `Rejected`, with the domain error as its source: the stored version is invalid. Only resources that use it are
    ///   affected.
    async fn resolve(
        &self,
        id: BlueprintVersionId,
    ) -> Result<Option<Arc<BlueprintVersionView>>, PortError>;

    /// The state of a version; `None` if it was never published. A declaration asks for it, a pass does not: a resource
    /// outlives the retirement of its version. **Implementer**: no cache.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    async fn state(&self, id: BlueprintVersionId) -> Result<Option<BlueprintState>, PortError>;
}

/// Finds clouds.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait CloudResolver: Send + Sync {
    /// The cloud of an id; `None` if the inventory has none.
    ///
    /// # Errors
    ///
    /// - `Transient`: the source could not be reached; callers conclude nothing from it.
    /// - `Rejected`, with the domain error as its source: the stored cloud is invalid. Only resources that use it are
    ///   affected.
    async fn resolve(&self, id: CloudId) -> Result<Option<CloudView>, PortError>;
}

/// Finds cloud credentials.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait CredentialResolver: Send + Sync {
    /// The credential of an id, if it has an assignment to the Project, in whatever state. **Implementer**: returns
    /// `None` for an unassigned credential, exactly as for one that does not exist. No cache, because the states decide
    /// what a pass may create.
    ///
    /// # Errors
    ///
    /// - `Transient`: the source could not be reached; callers conclude nothing from it.
    /// - `Rejected`, with the domain error as its source: a stored state is invalid. Values are validated during
    ///   rendering.
    async fn resolve(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> Result<Option<CredentialView>, PortError>;
}

/// Reads the placement of a Project on the management cluster.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait AssignmentReader: Send + Sync {
    /// The Project's namespace, its phase and its cluster; `None` if the Project is not placed. **Implementer**: no
    /// cache, because the phase decides what a pass may create.
    ///
    /// # Errors
    ///
    /// - `Transient`: the source could not be reached; callers conclude nothing from it.
    /// - `Rejected`, with the domain error as its source: the stored phase or cluster is invalid.
    async fn read(&self, project: ProjectId) -> Result<Option<NamespaceObservation>, PortError>;
}

/// Reads a Project's Resources: the handle with which an agent registers, and the labels that become cloud tags.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait ResourceReader: Send + Sync {
    /// The Resource of an id, if it belongs to the Project. **Implementer**: returns `None` for a Resource of another
    /// Project, exactly as for one that does not exist, so that no caller learns that it exists.
    ///
    /// # Errors
    ///
    /// - `Transient`: the source could not be reached; callers conclude nothing from it.
    /// - `Rejected`, with the domain error as its source: the stored handle is invalid. Only this Resource is affected.
    ///   Labels are validated during rendering.
    async fn read(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> Result<Option<ResourceView>, PortError>;

    /// Reads many Resources: one result each, in their order. **Implementer**: sends one request if possible. A sweep
    /// reads a page of rows with the deadline of a single call.
    ///
    /// # Errors
    ///
    /// When no result is available at all. A failure for one Resource is its own error; the other results stay valid.
    /// The default does this.
    async fn read_many(
        &self,
        resources: &[(ProjectId, ResourceId)],
    ) -> Result<Vec<Result<Option<ResourceView>, PortError>>, PortError> {
        let mut results = Vec::with_capacity(resources.len());
        for (project, resource) in resources {
            results.push(self.read(*project, *resource).await);
        }
        Ok(results)
    }
}

/// A published blueprint version.
#[derive(Debug)]
#[non_exhaustive]
pub struct BlueprintVersionView {
    /// Its id.
    pub id: BlueprintVersionId,
    /// The definition of its composite resource.
    pub xrd: Arc<Xrd>,
    /// The Composition, which its composite resources pin.
    pub composition: CompositionName,
    /// The schema of its parameters.
    pub parameter_schema: Arc<ParameterSchema>,
    /// How the broker injects a bootstrap token.
    pub injection_strategy: InjectionStrategy,
    /// Whether its machines become Nodes.
    pub mesh_role: MeshRole,
    /// The kinds that its Composition creates, as far as they are known.
    pub composed_kinds: Arc<[ComposedKind]>,
    /// How its composed objects refer to their ProviderConfig.
    pub provider_config: ProviderConfigUse,
}

impl BlueprintVersionView {
    /// A version whose composed kinds are unknown, with a ProviderConfig per resource.
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
            provider_config: ProviderConfigUse::PerResource,
        }
    }

    /// Sets how its composed objects refer to their ProviderConfig.
    #[must_use]
    pub fn using(mut self, provider_config: ProviderConfigUse) -> Self {
        self.provider_config = provider_config;
        self
    }

    /// Sets the kinds that its Composition creates.
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
    /// Its provider, such as `hetzner`.
    pub provider: Provider,
    /// Its endpoint: the text of a JSON object without secrets. The ProviderConfig holds it unchanged.
    pub endpoint: String,
}

impl CloudView {
    /// A cloud of a provider.
    pub fn new(id: CloudId, provider: Provider, endpoint: impl Into<String>) -> Self {
        Self { id, provider, endpoint: endpoint.into() }
    }
}

/// The location of a cloud credential, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CredentialView {
    /// Its id.
    pub id: CloudCredentialId,
    /// Its cloud.
    pub cloud_id: CloudId,
    /// The mount of its key-value store.
    pub kv_mount: String,
    /// Its path in that store.
    pub kv_path: String,
    /// Its own state.
    pub state: CredentialState,
    /// The state of its assignment to the Project.
    pub approval: ApprovalState,
}

impl CredentialView {
    /// An active credential for a cloud, at a location in a key-value store, approved for the Project.
    pub fn new(
        id: CloudCredentialId,
        cloud_id: CloudId,
        kv_mount: impl Into<String>,
        kv_path: impl Into<String>,
    ) -> Self {
        let (kv_mount, kv_path) = (kv_mount.into(), kv_path.into());
        let (state, approval) = (CredentialState::Active, ApprovalState::Approved);
        Self { id, cloud_id, kv_mount, kv_path, state, approval }
    }

    /// Sets the states of the credential and of its assignment.
    #[must_use]
    pub const fn in_state(mut self, state: CredentialState, approval: ApprovalState) -> Self {
        (self.state, self.approval) = (state, approval);
        self
    }

    /// Why the Project may create nothing with it; `None` if it is active and approved.
    pub const fn withdrawal(&self) -> Option<Withdrawal> {
        Withdrawal::of(self.state, self.approval)
    }
}

/// The part of a Project's Resource that provisioning needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResourceView {
    /// Its name inside its Project.
    pub handle: ResourceHandle,
    /// The labels that propagate, after inheritance.
    pub labels: BTreeMap<String, String>,
}

impl ResourceView {
    /// A Resource with its propagating labels.
    pub const fn new(handle: ResourceHandle, labels: BTreeMap<String, String>) -> Self {
        Self { handle, labels }
    }
}

/// A Project's namespace, as its owner reports it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NamespaceObservation {
    /// The namespace of the assignment. Rendering rejects any but the Project's own.
    pub namespace: String,
    /// Its phase. Ready takes every object, Degraded those of resources that were applied before.
    pub phase: NamespacePhase,
    /// Its management cluster; `None` on a platform with a single, unnamed cluster.
    pub cluster: Option<ClusterId>,
}

impl NamespaceObservation {
    /// A namespace on an unnamed cluster.
    pub fn new(namespace: impl Into<String>, phase: NamespacePhase) -> Self {
        Self { namespace: namespace.into(), phase, cluster: None }
    }

    /// Sets the management cluster.
    #[must_use]
    pub fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = Some(cluster);
        self
    }
}
