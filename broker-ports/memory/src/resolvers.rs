//! Declare: the platform's other contexts in memory: catalog, inventory, assignments and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, Error, MeshRole, ProjectId, ResourceId,
};
use broker_render::catalog::{ComposedKind, composition_name};
use broker_render::{InjectionStrategy, ParameterSchema, ProviderConfigUse, Xrd};
use serde_json::json;

use crate::PortResult;
use broker_ports::{
    AssignmentReader, BlueprintResolver, BlueprintVersionView, CloudResolver, CloudView,
    CredentialResolver, CredentialView, LabelTagResolver, NamespaceObservation, PortError,
    ResourceView,
};

/// Catalog, inventory, assignments and labels in one type, which implements all five resolvers. Clones are handles on
/// the same data.
///
/// ```
/// use broker_domain::{ProjectId, ResourceId};
/// use broker_memory::MemoryPlatformContexts;
/// use broker_ports::{AssignmentReader, NamespaceObservation};
/// use uuid::Uuid;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let contexts = MemoryPlatformContexts::default();
/// let project = ProjectId::new(Uuid::from_u128(1))?;
/// assert_eq!(contexts.read(project).await?, None);
/// contexts.place(project, NamespaceObservation::new("plexsphere-project-1", true));
/// assert!(contexts.read(project).await?.unwrap().ready);
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
    clouds: BTreeMap<CloudId, CloudView>,
    credentials: BTreeMap<CloudCredentialId, CredentialView>,
    assignments: BTreeSet<(ProjectId, CloudCredentialId)>,
    namespaces: BTreeMap<ProjectId, NamespaceObservation>,
    /// The Project of each Resource.
    resources: BTreeMap<ResourceId, ProjectId>,
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

    /// Assigns a credential to a Project.
    pub fn assign(&self, project: ProjectId, credential: CloudCredentialId) {
        self.lock().assignments.insert((project, credential));
    }

    /// Withdraws a credential from a Project.
    pub fn withdraw(&self, project: ProjectId, credential: CloudCredentialId) {
        self.lock().assignments.remove(&(project, credential));
    }

    /// Places a Project on the management cluster, or updates the state of its namespace.
    pub fn place(&self, project: ProjectId, namespace: NamespaceObservation) {
        self.lock().namespaces.insert(project, namespace);
    }

    /// Removes a Project from the management cluster.
    pub fn displace(&self, project: ProjectId) {
        self.lock().namespaces.remove(&project);
    }

    /// Adds a Resource to a Project.
    pub fn add_resource(&self, project: ProjectId, resource: ResourceId) {
        self.lock().resources.insert(resource, project);
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
}

fn parse(
    id: BlueprintVersionId,
    documents: &BlueprintDocuments,
) -> Result<BlueprintVersionView, Error> {
    let xrd = Arc::new(Xrd::parse(&documents.xrd)?);
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
        let assigned = data.assignments.contains(&(project, id));
        Ok(data.credentials.get(&id).filter(|_| assigned).cloned())
    }
}

#[async_trait]
impl AssignmentReader for MemoryPlatformContexts {
    async fn read(&self, project: ProjectId) -> PortResult<Option<NamespaceObservation>> {
        Ok(self.check_reachable()?.namespaces.get(&project).cloned())
    }
}

#[async_trait]
impl LabelTagResolver for MemoryPlatformContexts {
    async fn resolve(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> PortResult<Option<ResourceView>> {
        let data = self.check_reachable()?;
        if data.resources.get(&resource) != Some(&project) {
            return Ok(None);
        }
        let labels = data.labels.get(&resource).into_iter().flatten();
        let propagating = labels.filter(|(_, label)| label.propagates);
        let labels = propagating.map(|(key, label)| (key.clone(), label.value.clone())).collect();
        Ok(Some(ResourceView::new(labels)))
    }
}
