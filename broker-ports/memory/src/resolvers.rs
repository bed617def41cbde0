//! Declare: the platform's other contexts in memory: catalog, inventory, assignments and Resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, Error, MeshRole, ProjectId, ResourceHandle,
    ResourceId,
};
use broker_render::catalog::{ComposedKind, composition_name, xrd_of};
use broker_render::{InjectionStrategy, ParameterSchema, ProviderConfigUse};
use serde_json::json;

use crate::PortResult;
use broker_ports::{
    ApprovalState, AssignmentReader, BlueprintResolver, BlueprintState, BlueprintVersionView,
    CloudResolver, CloudView, CredentialResolver, CredentialState, CredentialView,
    NamespaceObservation, PortError, ResourceReader, ResourceView,
};

/// Catalog, inventory, assignments and Resources in one type, which implements all five resolvers. Clones are handles on
/// the same data.
///
/// ```
/// use broker_domain::{ProjectId, ResourceId};
/// use broker_memory::MemoryPlatformContexts;
/// use broker_ports::{AssignmentReader, NamespaceObservation, NamespacePhase};
/// use uuid::Uuid;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let contexts = MemoryPlatformContexts::default();
/// let project = ProjectId::new(Uuid::from_u128(1))?;
/// assert_eq!(contexts.read(project).await?, None);
/// contexts.place(project, NamespaceObservation::new("plexsphere-project-1", NamespacePhase::Ready));
/// assert_eq!(contexts.read(project).await?.unwrap().phase, NamespacePhase::Ready);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryPlatformContexts(Arc<Mutex<ContextData>>);

/// A blueprint version as a catalog stores it: unparsed documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlueprintDocuments {
    /// The XRD, in YAML or JSON.
    pub xrd: Vec<u8>,
    /// The Composition, in YAML or JSON.
    pub composition: Vec<u8>,
    /// The schema of the parameters.
    pub parameter_schema: Vec<u8>,
    /// How the broker injects a bootstrap token.
    pub injection_strategy: InjectionStrategy,
    /// Whether its machines become Nodes.
    pub mesh_role: MeshRole,
    /// The kinds that its Composition creates.
    pub composed_kinds: Vec<ComposedKind>,
    /// How its composed objects refer to their ProviderConfig.
    pub provider_config: ProviderConfigUse,
}

impl BlueprintDocuments {
    /// A Composition document with a name and no resources: the resolver reads only the name.
    pub fn composition_named(name: &str) -> Vec<u8> {
        let document = json!({
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": name},
        });
        document.to_string().into_bytes()
    }
}

#[derive(Debug, Default)]
struct ContextData {
    unreachable: bool,
    blueprints: BTreeMap<BlueprintVersionId, Blueprint>,
    retired: BTreeSet<BlueprintVersionId>,
    clouds: BTreeMap<CloudId, CloudView>,
    credentials: BTreeMap<CloudCredentialId, CredentialView>,
    approvals: BTreeMap<(ProjectId, CloudCredentialId), ApprovalState>,
    namespaces: BTreeMap<ProjectId, NamespaceObservation>,
    /// The Project and the handle of each Resource.
    resources: BTreeMap<ResourceId, (ProjectId, ResourceHandle)>,
    labels: BTreeMap<ResourceId, BTreeMap<String, Label>>,
}

/// The value of a label, and whether it propagates to the cloud.
#[derive(Debug)]
struct Label {
    value: String,
    propagates: bool,
}

#[derive(Debug)]
enum Blueprint {
    Unparsed(BlueprintDocuments),
    Parsed(Arc<BlueprintVersionView>),
}

impl MemoryPlatformContexts {
    /// Publishes a blueprint version. Its documents are parsed on resolution.
    pub fn publish(&self, id: BlueprintVersionId, documents: BlueprintDocuments) {
        self.lock().blueprints.insert(id, Blueprint::Unparsed(documents));
    }

    /// Removes a published blueprint version, which a real catalog never does.
    pub fn unpublish(&self, id: BlueprintVersionId) {
        self.lock().blueprints.remove(&id);
    }

    /// Changes the state of a blueprint version.
    pub fn set_blueprint_state(&self, id: BlueprintVersionId, state: BlueprintState) {
        let mut data = self.lock();
        match state {
            BlueprintState::Active => data.retired.remove(&id),
            BlueprintState::Retired => data.retired.insert(id),
        };
    }

    /// Adds or replaces a cloud.
    pub fn add_cloud(&self, cloud: CloudView) {
        self.lock().clouds.insert(cloud.id, cloud);
    }

    /// Removes a cloud from the inventory.
    pub fn remove_cloud(&self, id: CloudId) {
        self.lock().clouds.remove(&id);
    }

    /// Adds or replaces a credential. It is not assigned to a Project yet.
    pub fn add_credential(&self, credential: CredentialView) {
        self.lock().credentials.insert(credential.id, credential);
    }

    /// Changes the state of a credential.
    pub fn set_credential_state(&self, id: CloudCredentialId, state: CredentialState) {
        if let Some(credential) = self.lock().credentials.get_mut(&id) {
            credential.state = state;
        }
    }

    /// Assigns a credential to a Project, approved.
    pub fn assign(&self, project: ProjectId, credential: CloudCredentialId) {
        self.set_approval(project, credential, ApprovalState::Approved);
    }

    /// Assigns a credential to a Project, or changes the state of the assignment.
    pub fn set_approval(
        &self,
        project: ProjectId,
        credential: CloudCredentialId,
        to: ApprovalState,
    ) {
        self.lock().approvals.insert((project, credential), to);
    }

    /// Withdraws a credential from a Project.
    pub fn withdraw(&self, project: ProjectId, credential: CloudCredentialId) {
        self.lock().approvals.remove(&(project, credential));
    }

    /// Places a Project on the management cluster, or updates the state of its namespace.
    pub fn place(&self, project: ProjectId, namespace: NamespaceObservation) {
        self.lock().namespaces.insert(project, namespace);
    }

    /// Removes a Project from the management cluster.
    pub fn displace(&self, project: ProjectId) {
        self.lock().namespaces.remove(&project);
    }

    /// Adds a Resource to a Project, or renames it.
    pub fn add_resource(&self, project: ProjectId, resource: ResourceId, handle: ResourceHandle) {
        self.lock().resources.insert(resource, (project, handle));
    }

    /// Removes a Resource from its Project.
    pub fn remove_resource(&self, resource: ResourceId) {
        self.lock().resources.remove(&resource);
    }

    /// Adds a label that propagates to the cloud.
    pub fn label(&self, resource: ResourceId, key: impl Into<String>, value: impl Into<String>) {
        let label = Label { value: value.into(), propagates: true };
        self.lock().labels.entry(resource).or_default().insert(key.into(), label);
    }

    /// Adds a label that does not propagate.
    pub fn add_local_label(
        &self,
        resource: ResourceId,
        key: impl Into<String>,
        value: impl Into<String>,
    ) {
        let label = Label { value: value.into(), propagates: false };
        self.lock().labels.entry(resource).or_default().insert(key.into(), label);
    }

    /// Simulates an outage. While unreachable, every resolver returns a `Transient` error.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().unreachable = !reachable;
    }

    fn lock(&self) -> MutexGuard<'_, ContextData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data, or an error during an outage.
    fn check_reachable(&self) -> PortResult<MutexGuard<'_, ContextData>> {
        let data = self.lock();
        if data.unreachable {
            return Err(PortError::transient("the platform contexts are unreachable"));
        }
        Ok(data)
    }
}

#[async_trait]
impl BlueprintResolver for MemoryPlatformContexts {
    async fn resolve(
        &self,
        id: BlueprintVersionId,
    ) -> PortResult<Option<Arc<BlueprintVersionView>>> {
        let mut data = self.check_reachable()?;
        let Some(blueprint) = data.blueprints.get_mut(&id) else { return Ok(None) };
        let view = match blueprint {
            Blueprint::Parsed(view) => Arc::clone(view),
            Blueprint::Unparsed(documents) => Arc::new(parse(id, documents).map_err(|error| {
                PortError::rejected(format!("blueprint version {id} cannot be read"))
                    .with_source(error)
            })?),
        };
        *blueprint = Blueprint::Parsed(Arc::clone(&view));
        Ok(Some(view))
    }

    async fn state(&self, id: BlueprintVersionId) -> PortResult<Option<BlueprintState>> {
        let data = self.check_reachable()?;
        let state = if data.retired.contains(&id) {
            BlueprintState::Retired
        } else {
            BlueprintState::Active
        };
        Ok(data.blueprints.contains_key(&id).then_some(state))
    }
}

fn parse(
    id: BlueprintVersionId,
    documents: &BlueprintDocuments,
) -> Result<BlueprintVersionView, Error> {
    let xrd = Arc::new(xrd_of(&documents.xrd, &documents.composition)?);
    let schema = Arc::new(ParameterSchema::parse(&documents.parameter_schema)?);
    let composition = composition_name(&documents.composition)?;
    let (strategy, role) = (documents.injection_strategy, documents.mesh_role);
    let view = BlueprintVersionView::new(id, xrd, composition, schema, strategy, role);
    let view = view.composing(documents.composed_kinds.clone());
    Ok(view.using(documents.provider_config.clone()))
}

#[async_trait]
impl CloudResolver for MemoryPlatformContexts {
    async fn resolve(&self, id: CloudId) -> PortResult<Option<CloudView>> {
        Ok(self.check_reachable()?.clouds.get(&id).cloned())
    }
}

#[async_trait]
impl CredentialResolver for MemoryPlatformContexts {
    async fn resolve(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> PortResult<Option<CredentialView>> {
        let data = self.check_reachable()?;
        let approval = data.approvals.get(&(project, id));
        let found = data.credentials.get(&id).cloned().zip(approval);
        Ok(found.map(|(credential, approval)| {
            let state = credential.state;
            credential.in_state(state, *approval)
        }))
    }
}

#[async_trait]
impl AssignmentReader for MemoryPlatformContexts {
    async fn read(&self, project: ProjectId) -> PortResult<Option<NamespaceObservation>> {
        Ok(self.check_reachable()?.namespaces.get(&project).cloned())
    }
}

#[async_trait]
impl ResourceReader for MemoryPlatformContexts {
    async fn read(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> PortResult<Option<ResourceView>> {
        let data = self.check_reachable()?;
        let found = data.resources.get(&resource).filter(|(owner, _)| *owner == project);
        let Some((_, handle)) = found else { return Ok(None) };
        let labels = data.labels.get(&resource).into_iter().flatten();
        let propagating = labels.filter(|(_, label)| label.propagates);
        let labels = propagating.map(|(key, label)| (key.clone(), label.value.clone())).collect();
        Ok(Some(ResourceView::new(handle.clone(), labels)))
    }
}
