//! A kind of its own, a Project with its namespace, and a resource that nobody asked for yet: what the tests
//! of the cache, of faults, of rights and of the request budget begin with.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use broker_domain::ProjectId;
use broker_kube::KubeCluster;
use broker_kube::cache::Cache;
use broker_ports::{CachedXr, Cluster, ObjectVersion, PortError};
use broker_render::{Provider, ProviderProfile, ProviderProfiles, Xrd, namespace};
use broker_tests::documents::xrd;
use broker_tests::rights::blueprint;
use broker_tests::{TestCluster, TestNamespace, crd};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::fixture::{MACHINE, Subject};
use super::super::roles::Holder;
use super::super::world::{api, fresh_id};

/// The XRD of a kind `Machine` in a group.
pub(crate) fn xrd_document(group: &str) -> Value {
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "properties": {
        "parameters": {"type": "object", "properties": {"size": text}}, "userData": text,
    }});
    xrd(group, MACHINE, &["v1"], &spec)
}

/// The provider of every world.
fn provider() -> Provider {
    Provider::new("any").unwrap()
}

/// Its ProviderConfigs are of the world's own group.
fn profile(group: &str) -> ProviderProfile {
    ProviderProfile::of(&provider()).with_group(group).unwrap()
}

/// A Project on a cluster, with a kind of machines.
pub(crate) struct World {
    pub(crate) cluster: TestCluster,
    pub(crate) project: ProjectId,
    pub(crate) xrd: Arc<Xrd>,
    /// What the test itself and other parties do.
    pub(crate) admin: Client,
    /// What the adapter does: it has the roles for the kinds of this world, in its Project.
    pub(crate) broker: Holder,
    /// The group of everything that was installed for this world.
    pub(crate) group: String,
    _namespace: TestNamespace,
}

impl World {
    /// A world whose kind nobody else has, so that what is counted is its own.
    pub(crate) async fn alone(cluster: &TestCluster) -> Self {
        let random = RandomState::new().hash_one(0);
        Self::of(cluster, &format!("w{random:x}.example.org")).await
    }

    /// A world with a Project of its own.
    pub(crate) async fn of(cluster: &TestCluster, group: &str) -> Self {
        let document = xrd_document(group);
        cluster.install_crd(crd::from_xrd(&document)).await;
        let project = ProjectId::new(fresh_id()).unwrap();
        let home = cluster.namespace_named(namespace(project).as_str()).await;
        let profiles = ProviderProfiles::default().with(provider(), profile(group));
        let world = Self {
            cluster: cluster.clone(),
            project,
            xrd: Arc::new(Xrd::parse(document.to_string().as_bytes()).unwrap()),
            admin: cluster.admin().await,
            broker: Holder::new(cluster, profiles).await,
            group: group.to_owned(),
            _namespace: home,
        };
        let part = json!({"apiVersion": format!("{group}/v1"), "kind": "Part"});
        let machine = blueprint("machine", provider().as_str(), &document, &[part]);
        world.broker.learn([machine]).await;
        world.broker.admit_to(namespace(project).as_str()).await;
        world
    }

    /// The kind of ProviderConfigs, and a kind to be composed, both in this world's group.
    pub(crate) async fn install_neighbours(&self) {
        let Self { group, .. } = self;
        let configs = crd::plain(group, "v1beta1", "ProviderConfig", "providerconfigs");
        self.cluster.install_crd(configs).await;
        self.cluster.install_crd(crd::plain(group, "v1", "Part", "parts")).await;
    }

    /// A resource that nobody asked for yet.
    pub(crate) fn resource(&self) -> Subject {
        Subject::configured_by(self.project, Arc::clone(&self.xrd), profile(&self.group))
    }

    /// The composite resources of this world's kind, past the adapter.
    pub(crate) fn machines(&self) -> Api<DynamicObject> {
        api(&self.admin, &self.resource().reference())
    }

    /// The object of a resource, past the adapter.
    pub(crate) async fn live(&self, resource: &Subject) -> Option<DynamicObject> {
        self.machines().get_opt(resource.reference().name()).await.unwrap()
    }

    /// Changes the object of a resource, past the adapter.
    pub(crate) async fn patch(&self, resource: &Subject, patch: Value) {
        let parameters =
            PatchParams { field_manager: Some("kubectl".into()), ..PatchParams::default() };
        self.machines()
            .patch(resource.reference().name(), &parameters, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Deletes the object of a resource, past the adapter.
    pub(crate) async fn delete(&self, resource: &Subject) {
        self.machines()
            .delete(resource.reference().name(), &DeleteParams::default())
            .await
            .unwrap();
    }
}

/// What a cluster says of one resource in a batch.
pub(crate) async fn observed(
    cluster: &KubeCluster,
    resource: &Subject,
) -> Result<CachedXr, PortError> {
    cluster.observe_many(&[resource.xr_target()]).await?.remove(0)
}

/// The version that was seen, if it was.
pub(crate) fn version_of(seen: &CachedXr) -> Option<&ObjectVersion> {
    match seen {
        CachedXr::Seen { version, .. } => Some(version),
        CachedXr::Absent => None,
    }
}

/// Runs a cache until the answer is dropped.
pub(crate) fn run(cache: &Arc<Cache>) -> JoinSet<()> {
    let cache = Arc::clone(cache);
    let mut running = JoinSet::new();
    running.spawn(async move { cache.run(std::future::pending()).await });
    running
}
