//! A resource on a simulated cluster, and what the broker would do for it.

use std::sync::Arc;

use broker_domain::{
    BootstrapTokenId, MeshRole, ObjectReference, Parameters, ProvisionedResourceId,
};
use broker_memory::{Behaviour, KindScope, MemoryCluster};
use broker_ports::{
    Applied, ApplyRequest, Cluster as _, DeleteRequest, Deleted, LiveXr, ObjectVersion, Target,
    XrReading, XrTarget,
};
use broker_render::catalog::ComposedKind;
use broker_render::{
    Agent, ApiUrl, Armed, Bootstrap, CloudTags, CompositionName, Identity, InjectionStrategy,
    Precondition, Provider, ProviderConfigInput, ProviderProfile, Xr, XrInput, Xrd,
    inject_bootstrap, namespace, provider_config, xr,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::empty_cluster;

pub(crate) const TOKEN: &str = "canary \"token\": 5f1d";
pub(crate) const PART: (&str, &str) = ("nop.crossplane.io/v1alpha1", "NopResource");

/// A cluster with one kind of machines, and a resource of that kind.
pub(crate) struct Resource {
    pub(crate) cluster: MemoryCluster,
    pub(crate) xrd: Arc<Xrd>,
    pub(crate) identity: Identity,
    strategy: InjectionStrategy,
    mesh_role: MeshRole,
    parameters: Parameters,
    tags: CloudTags,
}

fn document(api: &str, scope: &str) -> String {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": format!("apiextensions.crossplane.io/{api}"),
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "machines.example.org"},
        "spec": {
            "group": "example.org",
            "scope": scope,
            "names": {"kind": "Machine", "plural": "machines"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
            }],
        },
    })
    .to_string()
}

impl Resource {
    /// A standalone resource whose kind behaves.
    pub(crate) fn standalone(behaviour: Behaviour) -> Self {
        Self::new(&document("v2", "Namespaced"), KindScope::Namespaced, behaviour)
    }

    /// A Node that gets its token in one of the three ways.
    pub(crate) fn node(strategy: InjectionStrategy) -> Self {
        let resource = Self::standalone(Behaviour::ready_after(0));
        Self { strategy, mesh_role: MeshRole::Node, ..resource }
    }

    /// Outside of any namespace, as XRDs of both generations can have it.
    pub(crate) fn cluster_scoped(api: &str, scope: &str) -> Self {
        Self::new(&document(api, scope), KindScope::Cluster, Behaviour::ready_after(0))
    }

    fn new(document: &str, parts: KindScope, behaviour: Behaviour) -> Self {
        let cluster = empty_cluster();
        let xrd = Arc::new(Xrd::parse(document.as_bytes()).unwrap());
        cluster.install_xrd(&xrd);
        cluster.install_kind(PART.0, PART.1, parts);
        cluster.install_kind(
            "hcloud.crossplane.io/v1beta1",
            "ProviderConfig",
            KindScope::Namespaced,
        );
        cluster.behave(&xrd, behaviour);
        let identity = Identity {
            resource: Uuid::from_u128(0x0198).try_into().unwrap(),
            project: Uuid::from_u128(0x5e0c).try_into().unwrap(),
            blueprint_version: Uuid::from_u128(0xb1).try_into().unwrap(),
        };
        cluster.create_namespace(namespace(identity.project).as_str());
        Self {
            cluster,
            xrd,
            identity,
            strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Standalone,
            parameters: Parameters::from_canonical_json(r#"{"size":"small"}"#).unwrap(),
            tags: CloudTags::default(),
        }
    }

    pub(crate) fn id(&self) -> ProvisionedResourceId {
        self.identity.resource
    }

    /// Another resource on the same cluster.
    pub(crate) fn neighbour(&self, number: u128) -> Self {
        let resource = Uuid::from_u128(number).try_into().unwrap();
        Self {
            cluster: self.cluster.clone(),
            xrd: Arc::clone(&self.xrd),
            identity: Identity { resource, ..self.identity },
            parameters: self.parameters.clone(),
            tags: CloudTags::default(),
            ..*self
        }
    }

    pub(crate) fn xr_target(&self) -> XrTarget {
        let Identity { resource, project, .. } = self.identity;
        XrTarget::new(resource, project, Arc::clone(&self.xrd))
    }

    pub(crate) fn target(&self) -> Target {
        let kind = ComposedKind { api_version: PART.0.to_owned(), kind: PART.1.to_owned() };
        Target::new(self.xr_target(), self.config_reference()).composing([kind])
    }

    pub(crate) fn reference(&self) -> ObjectReference {
        self.xr_target().reference().unwrap()
    }

    fn xr(&self) -> Xr<'_> {
        xr(&XrInput {
            xrd: &self.xrd,
            composition: CompositionName::new("machine").unwrap(),
            injection_strategy: self.strategy,
            mesh_role: self.mesh_role,
            identity: self.identity,
            parameters: &self.parameters,
            tags: &self.tags,
        })
        .unwrap()
    }

    async fn apply(&self, request: ApplyRequest) -> ObjectVersion {
        match self.cluster.apply(&request).await.unwrap() {
            Applied::Done(version) => version,
            lost @ (Applied::Conflict | Applied::NameTaken) => panic!("{lost:?}"),
        }
    }

    pub(crate) async fn shell(&self) -> ObjectVersion {
        let shell = self.xr().shell(1);
        self.apply(ApplyRequest::open(self.identity.project, shell, Precondition::Absent)).await
    }

    pub(crate) async fn arm(&self, shell: &ObjectVersion) -> ObjectVersion {
        let project = self.identity.project;
        let request = match self.mesh_role {
            MeshRole::Standalone => {
                let manifest = self.xr().armed(&Armed::Standalone);
                ApplyRequest::open(project, manifest, shell.unchanged())
            }
            MeshRole::Node => {
                let bootstrap = Bootstrap {
                    token_id: BootstrapTokenId::new(Uuid::from_u128(0x70ce)).unwrap(),
                    token: &SecretString::from(TOKEN),
                    api_url: &ApiUrl::new("https://api.plexsphere.example").unwrap(),
                    agent: &Agent::default(),
                };
                let sealed = inject_bootstrap(&self.xr(), &bootstrap).unwrap();
                ApplyRequest::sealed(project, sealed, shell.unchanged())
            }
        };
        self.apply(request).await
    }

    /// Shell and arm.
    pub(crate) async fn start(&self) -> ObjectVersion {
        let shell = self.shell().await;
        self.arm(&shell).await
    }

    fn config_manifest(&self) -> broker_render::Manifest {
        let input = ProviderConfigInput {
            profile: &ProviderProfile::of(&Provider::new("hcloud").unwrap()),
            identity: self.identity,
            endpoint: "{}",
            secret_name: "cloud-credentials-0000000000000000",
        };
        provider_config(&input).unwrap()
    }

    fn config_reference(&self) -> ObjectReference {
        self.config_manifest().reference().clone()
    }

    pub(crate) async fn apply_config(&self) -> ObjectVersion {
        let (project, manifest) = (self.identity.project, self.config_manifest());
        self.apply(ApplyRequest::open(project, manifest, Precondition::Absent)).await
    }

    pub(crate) async fn delete_config(&self, uid: &str) -> Deleted {
        let (project, target) = (self.identity.project, &self.config_reference());
        self.cluster.delete(&DeleteRequest::new(project, target, uid)).await.unwrap()
    }

    pub(crate) async fn delete(&self) -> Deleted {
        let uid = &self.live().await.object.version().uid.clone();
        let (project, target) = (self.identity.project, &self.reference());
        self.cluster.delete(&DeleteRequest::new(project, target, uid)).await.unwrap()
    }

    /// The composite resource, which stands.
    pub(crate) async fn live(&self) -> LiveXr {
        match self.cluster.read(&self.target()).await.unwrap().xr {
            XrReading::Present(live) => *live,
            absent @ (XrReading::Absent | XrReading::NamespaceAbsent | XrReading::KindAbsent) => {
                panic!("{absent:?}")
            }
        }
    }

    pub(crate) fn stands(&self) -> bool {
        self.cluster.stands(&self.reference())
    }

    /// The composed objects that stand.
    pub(crate) fn parts(&self) -> Vec<ObjectReference> {
        let objects = self.cluster.objects().into_iter();
        objects.filter(|object| (object.api_version(), object.kind()) == PART).collect()
    }

    /// A condition of an object: status, reason and message.
    pub(crate) fn condition(&self, of: &ObjectReference, kind: &str) -> (String, String, String) {
        let object = self.cluster.object(of).unwrap();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition["type"] == json!(kind));
        let condition = condition.unwrap_or_default();
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        (text("status"), text("reason"), text("message"))
    }
}
