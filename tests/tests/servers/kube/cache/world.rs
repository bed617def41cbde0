//! A kind of its own, a Project with its namespace, and a resource that nobody asked for yet: what the tests
//! of the cache, of faults, of rights and of the request budget begin with.

use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::Arc;

use broker_domain::{MeshRole, ObjectReference, Parameters, ProjectId};
use broker_kube::KubeCluster;
use broker_kube::cache::Cache;
use broker_ports::{
    Applied, ApplyRequest, CachedXr, Cluster, ObjectVersion, PortError, Target, XrTarget,
};
use broker_render::catalog::ComposedKind;
use broker_render::{
    Armed, CloudTags, CompositionName, Identity, InjectionStrategy, Manifest, Precondition,
    Provider, ProviderConfigInput, ProviderProfile, ProviderProfiles, Scope, XrInput, Xrd,
    namespace, provider_config, xr,
};
use broker_tests::rights::blueprint;
use broker_tests::{TestCluster, TestNamespace, crd};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::roles::Holder;

/// A random id, which nobody has.
pub(crate) fn fresh<T: FromStr<Err: std::fmt::Debug>>() -> T {
    let random = || RandomState::new().hash_one(0);
    let (high, low) = (random(), random());
    let text = format!(
        "{:08x}-{:04x}-7{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    );
    text.parse().unwrap()
}

/// The XRD of a kind `Machine` in a group.
pub(crate) fn xrd_document(group: &str, scope: Scope) -> Value {
    let spec = json!({
        "type": "object",
        "properties": {
            "parameters": {"type": "object", "properties": {"size": {"type": "string"}}},
            "userData": {"type": "string"},
        },
    });
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("machines.{group}")},
        "spec": {
            "group": group,
            "scope": scope.as_str(),
            "names": {"kind": "Machine", "plural": "machines"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// The provider of every world.
fn provider() -> Provider {
    Provider::new("any").unwrap()
}

/// Its ProviderConfigs are of the world's own group.
fn profile(group: &str) -> ProviderProfile {
    ProviderProfile::of(&provider()).with_group(group).unwrap()
}

/// The definition of a kind whose objects may hold anything.
pub(crate) fn plain_crd(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
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
        Self::of(cluster, &format!("w{random:x}.example.org"), Scope::Namespaced).await
    }

    /// A world with a Project of its own.
    pub(crate) async fn of(cluster: &TestCluster, group: &str, scope: Scope) -> Self {
        let document = xrd_document(group, scope);
        cluster.install_crd(crd::from_xrd(&document)).await;
        let project: ProjectId = fresh();
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
        world.learn("machine", provider().as_str(), &document).await;
        world
    }

    /// Gives the broker the roles for a blueprint of this provider, which composes this world's parts.
    pub(crate) async fn learn(&self, slug: &str, provider: &str, xrd: &Value) {
        let ComposedKind { api_version, kind } = self.part();
        let part = json!({"apiVersion": api_version, "kind": kind});
        self.broker.learn([blueprint(slug, provider, xrd, &[part])]).await;
        self.broker.admit_to(namespace(self.project).as_str()).await;
    }

    /// The kind of ProviderConfigs, and a kind to be composed, both in this world's group.
    pub(crate) async fn install_neighbours(&self) {
        let Self { group, .. } = self;
        let configs = plain_crd(group, "v1beta1", "ProviderConfig", "providerconfigs");
        self.cluster.install_crd(configs).await;
        self.cluster.install_crd(plain_crd(group, "v1", "Part", "parts")).await;
    }

    /// The kind of composed objects.
    pub(crate) fn part(&self) -> ComposedKind {
        ComposedKind { api_version: format!("{}/v1", self.group), kind: "Part".to_owned() }
    }

    /// A resource that nobody asked for yet.
    pub(crate) fn resource(&self) -> Resource {
        Resource {
            identity: Identity {
                resource: fresh(),
                project: self.project,
                blueprint_version: fresh(),
            },
            xrd: Arc::clone(&self.xrd),
            group: self.group.clone(),
        }
    }

    /// The composite resources of this world's kind, past the adapter.
    pub(crate) fn machines(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(self.xrd.group(), self.xrd.version(), self.xrd.kind());
        let kind = ApiResource::from_gvk_with_plural(&kind, self.xrd.plural());
        match self.xrd.scope() {
            Scope::Namespaced => {
                Api::namespaced_with(self.admin.clone(), namespace(self.project).as_str(), &kind)
            }
            Scope::Cluster | Scope::LegacyCluster => Api::all_with(self.admin.clone(), &kind),
        }
    }

    /// The object of a resource, past the adapter.
    pub(crate) async fn live(&self, resource: &Resource) -> Option<DynamicObject> {
        self.machines().get_opt(&resource.name()).await.unwrap()
    }

    /// Changes the object of a resource, past the adapter.
    pub(crate) async fn patch(&self, resource: &Resource, patch: Value) {
        let parameters =
            PatchParams { field_manager: Some("kubectl".into()), ..PatchParams::default() };
        self.machines().patch(&resource.name(), &parameters, &Patch::Merge(patch)).await.unwrap();
    }

    /// Deletes the object of a resource, past the adapter.
    pub(crate) async fn delete(&self, resource: &Resource) {
        self.machines().delete(&resource.name(), &DeleteParams::default()).await.unwrap();
    }
}

/// One resource, and what the broker renders for it.
pub(crate) struct Resource {
    pub(crate) identity: Identity,
    xrd: Arc<Xrd>,
    group: String,
}

impl Resource {
    pub(crate) fn name(&self) -> String {
        self.identity.xr_name().to_string()
    }

    pub(crate) fn xr_target(&self) -> XrTarget {
        let Identity { resource, project, .. } = self.identity;
        XrTarget::new(resource, project, Arc::clone(&self.xrd))
    }

    pub(crate) fn reference(&self) -> ObjectReference {
        self.xr_target().reference().unwrap()
    }

    /// Everything of the resource; a kind that is composed may be named.
    pub(crate) fn target(&self, composed: &[ComposedKind]) -> Target {
        Target::new(self.xr_target(), self.provider_config().reference().clone())
            .composing(composed)
    }

    fn rendered(&self, render: impl FnOnce(&broker_render::Xr<'_>) -> Manifest) -> Manifest {
        let parameters = Parameters::from_canonical_json(r#"{"size":"small"}"#).unwrap();
        let tags = CloudTags::default();
        let input = XrInput {
            xrd: &self.xrd,
            composition: CompositionName::new("machine").unwrap(),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Standalone,
            identity: self.identity,
            parameters: &parameters,
            tags: &tags,
        };
        render(&xr(&input).unwrap())
    }

    pub(crate) fn shell(&self) -> Manifest {
        self.rendered(|xr| xr.shell(1))
    }

    pub(crate) fn armed(&self) -> Manifest {
        self.rendered(|xr| xr.armed(&Armed::Standalone))
    }

    pub(crate) fn provider_config(&self) -> Manifest {
        provider_config(&ProviderConfigInput {
            profile: &profile(&self.group),
            identity: self.identity,
            endpoint: r#"{"region":"here"}"#,
            secret_name: "cloud-credentials-0000000000000000",
        })
        .unwrap()
    }

    /// A request to apply one of its manifests.
    pub(crate) fn request(&self, manifest: Manifest, precondition: Precondition) -> ApplyRequest {
        ApplyRequest::open(self.identity.project, manifest, precondition)
    }

    /// Applies the shell, which has to work.
    pub(crate) async fn start(&self, cluster: &KubeCluster) -> ObjectVersion {
        done(cluster.apply(&self.request(self.shell(), Precondition::Absent)).await)
    }
}

/// The version at which an apply was done.
pub(crate) fn done(applied: Result<Applied, PortError>) -> ObjectVersion {
    match applied {
        Ok(Applied::Done(version)) => version,
        other => panic!("not applied: {other:?}"),
    }
}

/// What a cluster says of one resource in a batch.
pub(crate) async fn observed(
    cluster: &KubeCluster,
    resource: &Resource,
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
