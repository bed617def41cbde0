//! A real API server as a world for the contract suite. The port connects through a proxy that the suite can
//! close; all other clients bypass the proxy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::ObjectReference;
use broker_kube::cache::{Cache, CacheOptions};
use broker_ports::{Cluster, PortError};
use broker_render::Xrd;
use broker_testkit::cluster::{ClusterUnderTest, PlainKind, ServedKind};
use broker_tests::collector::create_and_wait_for_collector;
use broker_tests::proxy::Request;
use broker_tests::rights::{BrokerIdentity, blueprint};
use broker_tests::{HttpProxy, TestCluster, TestNamespace, crd, until};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::roles::{CatalogIdentity, DEADLINE, adapter_over, options, uncached};

/// Where an XRD of the suite declares the user data.
const USER_DATA: &str =
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/userData";

/// The label that makes the API server call Crossplane's webhook for an object.
const IN_USE: &str = "crossplane.io/in-use";

const PROVIDER: &str = "contract";

pub(super) fn fresh_id() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    Uuid::from_u64_pair(random, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The API of a referenced object's kind and namespace.
pub(super) fn api(client: &Client, target: &ObjectReference) -> Api<DynamicObject> {
    let (group, version) =
        target.api_version().split_once('/').unwrap_or(("", target.api_version()));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, target.kind()));
    match target.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

/// The definition of a kind without a schema.
pub(super) fn plain_definition(kind: &PlainKind) -> Value {
    let PlainKind { api_version, kind, plural, namespaced } = kind;
    let (group, version) = api_version.split_once('/').unwrap();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything},
                "subresources": {"status": {}},
            }],
        },
    })
}

/// An identity with all rights on some kinds and none on others: the suite tests the error for a
/// missing right.
async fn limited_identity(cluster: &TestCluster, kinds: &[PlainKind]) -> BrokerIdentity {
    let name = format!("limited-{}", fresh_id());
    let rights = |kind: &PlainKind| {
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
        let resources = [kind.plural.clone(), format!("{}/status", kind.plural)];
        json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]})
    };
    let role = json!({
        "metadata": {"name": name}, "rules": kinds.iter().map(rights).collect::<Vec<_>>(),
    });
    let identity = BrokerIdentity::new(cluster, &*name).await;
    identity.grant(&format!("---\n{role}"), &name).await;
    identity
}

pub(super) struct World {
    cluster: TestCluster,
    broker: Arc<CatalogIdentity>,
    admin: Client,
    proxy: Mutex<Option<HttpProxy>>,
    port: Arc<dyn Cluster>,
    cache: Arc<Cache>,
    namespaces: Mutex<Vec<TestNamespace>>,
    _running: JoinSet<()>,
}

impl World {
    /// A world whose port has a broker's rights.
    pub(super) async fn new(cluster: &TestCluster, broker: Arc<CatalogIdentity>) -> Self {
        let (proxy, client) = broker.proxied().await;
        let (port, cache) = adapter_over(client, options(DEADLINE), CacheOptions::default());
        let mut running = JoinSet::new();
        let run = Arc::clone(&cache);
        running.spawn(async move { run.run(std::future::pending()).await });
        Self {
            cluster: cluster.clone(),
            broker,
            admin: cluster.admin().await,
            proxy: Mutex::new(Some(proxy)),
            port,
            cache,
            namespaces: Mutex::default(),
            _running: running,
        }
    }

    /// Installs a definition unless it exists; waits for one that is being deleted.
    async fn install_definition(&self, definition: Value) {
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        let definitions = Api::<CustomResourceDefinition>::all(self.admin.clone());
        let exists = until(format!("the old {name} to be deleted"), || async {
            match definitions.get_opt(&name).await.unwrap() {
                None => Some(false),
                Some(live) => live.metadata.deletion_timestamp.is_none().then_some(true),
            }
        })
        .await;
        if !exists {
            self.cluster.install_crd(definition).await;
        }
    }

    /// Follows a kind of ProviderConfigs, as a pass does. A change after the list that precedes the
    /// watch produces a hint.
    async fn follow_provider_configs(&self, kind: &PlainKind) {
        self.cache.track_provider_configs(&kind.api_version, &kind.plural);
        let is_watch = |request: &Request| {
            request.target.contains(&kind.plural) && request.target.contains("watch=true")
        };
        until("the ProviderConfigs to be watched", || async {
            let proxy = self.proxy.lock().unwrap();
            proxy.as_ref()?.script().requests().iter().any(is_watch).then_some(())
        })
        .await;
    }
}

fn part() -> Value {
    json!({"apiVersion": "parts.plexsphere.io/v1", "kind": "Part"})
}

fn rejected(error: kube::Error) -> PortError {
    PortError::rejected("a hook was refused").with_source(error)
}

#[async_trait]
impl ClusterUnderTest for World {
    fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::clone(&self.port)
    }

    async fn limited_to(&self, kinds: &[PlainKind]) -> Result<Arc<dyn Cluster>, PortError> {
        Ok(Arc::new(uncached(limited_identity(&self.cluster, kinds).await.client)))
    }

    fn fresh_id(&self) -> Uuid {
        fresh_id()
    }

    async fn kube_system_uid(&self) -> Result<String, PortError> {
        let namespaces = Api::<Namespace>::all(self.admin.clone());
        let kube_system = namespaces.get("kube-system").await.map_err(rejected)?;
        Ok(kube_system.metadata.uid.unwrap())
    }

    async fn install(&self, kind: &ServedKind) -> Result<(), PortError> {
        match kind {
            ServedKind::Plain(kind) => {
                self.install_definition(plain_definition(kind)).await;
                if kind.kind == "ProviderConfig" {
                    self.follow_provider_configs(kind).await;
                }
            }
            ServedKind::Composite(document) => {
                let xrd = Xrd::parse(document.as_bytes())?;
                let mut document: Value = serde_json::from_str(document).unwrap();
                self.install_definition(crd::from_xrd(&document)).await;
                // No catalog accepts a kind without user data.
                *document.pointer_mut(USER_DATA).unwrap() = json!({"type": "string"});
                let slug = xrd.kind().to_lowercase();
                self.broker
                    .add_blueprints([blueprint(&slug, PROVIDER, &document, &[part()])])
                    .await;
                // The cache must follow the kind before a case listens for hints.
                until(format!("the cache to follow {}", xrd.kind()), || async {
                    self.cache.warm(&xrd)
                })
                .await;
            }
        }
        Ok(())
    }

    async fn remove_kind(&self, kind: &PlainKind) -> Result<(), PortError> {
        let (group, _) = kind.api_version.split_once('/').unwrap();
        Api::<CustomResourceDefinition>::all(self.admin.clone())
            .delete(&format!("{}.{group}", kind.plural), &DeleteParams::default())
            .await
            .map(drop)
            .map_err(rejected)
    }

    async fn create_namespace(&self, name: &str) -> Result<(), PortError> {
        let namespace = self.cluster.namespace_named(name).await;
        self.namespaces.lock().unwrap().push(namespace);
        self.broker.admit_to(name).await;
        Ok(())
    }

    async fn remove_namespace(&self, name: &str) -> Result<(), PortError> {
        let namespaces = Api::<Namespace>::all(self.admin.clone());
        namespaces.delete(name, &DeleteParams::default()).await.map(drop).map_err(rejected)
    }

    async fn create(&self, target: &ObjectReference, object: &Value) -> Result<(), PortError> {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let api = api(&self.admin, target);
        if !object.owner_references().is_empty() {
            create_and_wait_for_collector(&api, object).await;
            return Ok(());
        }
        api.create(&PostParams::default(), &object).await.map(drop).map_err(rejected)
    }

    async fn patch(
        &self,
        manager: &str,
        target: &ObjectReference,
        patch: &Value,
    ) -> Result<(), PortError> {
        let parameters =
            PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let api = api(&self.admin, target);
        let patched = api.patch(target.name(), &parameters, &Patch::Merge(patch)).await;
        patched.map(drop).map_err(rejected)
    }

    async fn patch_status(&self, target: &ObjectReference, patch: &Value) -> Result<(), PortError> {
        let api = api(&self.admin, target);
        let parameters = PatchParams::default();
        let patched = api.patch_status(target.name(), &parameters, &Patch::Merge(patch)).await;
        patched.map(drop).map_err(rejected)
    }

    async fn delete_in_background(&self, target: &ObjectReference) -> Result<(), PortError> {
        let api = api(&self.admin, target);
        let deleted = api.delete(target.name(), &DeleteParams::background()).await;
        deleted.map(drop).map_err(rejected)
    }

    async fn veto(&self, target: &ObjectReference, message: &str) -> Result<(), PortError> {
        let namespace = target.namespace().expect("a Usage of an object in a namespace");
        let name = format!("usage-{}", fresh_id());
        let policy = json!({
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [{
                        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"],
                        "resources": ["*"],
                    }],
                    "objectSelector": {"matchLabels": {IN_USE: "true"}},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                },
                // The namespace controller, a system user, may still delete the object.
                "matchConditions": [{
                    "name": "people", "expression": "!request.userInfo.username.startsWith('system:')",
                }],
                "validations": [{"expression": "false", "message": message}],
            },
        });
        let binding = json!({
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        let post = PostParams::default();
        Api::<ValidatingAdmissionPolicy>::all(self.admin.clone())
            .create(&post, &serde_json::from_value(policy).unwrap())
            .await
            .map_err(rejected)?;
        Api::<ValidatingAdmissionPolicyBinding>::all(self.admin.clone())
            .create(&post, &serde_json::from_value(binding).unwrap())
            .await
            .map_err(rejected)?;
        let label = json!({"metadata": {"labels": {IN_USE: "true"}}});
        self.patch("crossplane", target, &label).await?;
        // A stored policy takes effect with a delay.
        let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
        until("the policy to be enforced", || async {
            api(&self.admin, target).delete(target.name(), &dry).await.err()
        })
        .await;
        Ok(())
    }

    async fn object(&self, target: &ObjectReference) -> Result<Option<Value>, PortError> {
        let found = api(&self.admin, target).get_opt(target.name()).await.map_err(rejected)?;
        Ok(found.map(|object| serde_json::to_value(object).unwrap()))
    }

    async fn namespace_exists(&self, name: &str) -> Result<bool, PortError> {
        let namespaces = Api::<Namespace>::all(self.admin.clone());
        Ok(namespaces.get_opt(name).await.map_err(rejected)?.is_some())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        drop(self.proxy.lock().unwrap().take());
        Ok(())
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
