//! The broker's identity on a cluster: exactly the roles that the product generates, bound as their
//! comments say.
//!
//! Every adapter that acts as the broker uses such an identity. The test's own actions, such as
//! simulating Crossplane, use the admin identity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use broker_render::catalog::{Blueprint, Files, read};
use futures::future::join_all;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::TestCluster;
use crate::failure::OrFail;
use crate::wait::until;

/// A right: API group, plural and verb.
pub type Right = (String, String, String);

/// The prefix of the generated roles' names. Tests replace it: a `ClusterRole` has no namespace,
/// and tests share a cluster.
const PREFIX: &str = "plexsphere-provisioning-broker";

/// How the writer role of an identity is bound.
enum WriterBinding {
    /// In each namespace that the identity is admitted to, as the generated roles require.
    PerNamespace,
    /// In the whole cluster, including absent namespaces.
    ClusterWide,
}

/// An identity with generated roles and nothing else.
pub struct BrokerIdentity {
    /// Sends requests under this identity, each once.
    pub client: Client,
    /// Its user name on the API server.
    pub user: String,
    admin: Client,
    writer_binding: WriterBinding,
    /// Its roles, by name.
    roles: Mutex<BTreeMap<String, ClusterRole>>,
}

impl BrokerIdentity {
    /// An identity without any right.
    pub async fn new(cluster: &TestCluster, user: impl Into<String>) -> Self {
        Self::with_binding(WriterBinding::PerNamespace, cluster, user.into()).await
    }

    /// An identity without any right, whose writer role is bound cluster-wide when it is granted. For
    /// tests of writes to an absent namespace: a `RoleBinding` cannot exist there, and without one
    /// the API server responds "forbidden" before it checks the namespace.
    pub async fn with_cluster_wide_writer(cluster: &TestCluster, user: impl Into<String>) -> Self {
        Self::with_binding(WriterBinding::ClusterWide, cluster, user.into()).await
    }

    async fn with_binding(
        writer_binding: WriterBinding,
        cluster: &TestCluster,
        user: String,
    ) -> Self {
        let (admin, client) = (cluster.admin().await, cluster.identity(&user).await);
        Self { client, user, admin, writer_binding, roles: Mutex::default() }
    }

    /// Installs generated roles under another prefix and waits until the API server enforces them. The writer is bound
    /// by [`admit_to`](Self::admit_to), every other role to the whole cluster. Roles of a known name are replaced.
    pub async fn grant(&self, generated: &str, prefix: &str) {
        let roles = Api::<ClusterRole>::all(self.admin.clone());
        let bindings = Api::<ClusterRoleBinding>::all(self.admin.clone());
        for document in generated.split("---\n").skip(1) {
            let role: ClusterRole =
                serde_saphyr::from_str(&document.replace(PREFIX, prefix)).or_fail("a role");
            let name = role.name_any();
            roles.patch(&name, &platform(), &Patch::Apply(&role)).await.or_fail("a role");
            if !self.is_bound_by_namespace(&role) {
                let (name, binding) = self.binding(&name);
                let binding: ClusterRoleBinding =
                    serde_json::from_value(binding).or_fail("a binding");
                let bound = bindings.patch(&name, &platform(), &Patch::Apply(binding)).await;
                bound.or_fail("a binding");
                self.wait_until_enforced(&role, None).await;
            }
            self.roles().insert(name, role);
        }
    }

    /// Binds its writers in the namespace of a Project, and waits until the API server enforces the
    /// binding.
    pub async fn admit_to(&self, namespace: &str) {
        let bindings = Api::<RoleBinding>::namespaced(self.admin.clone(), namespace);
        let held: Vec<ClusterRole> = self.roles().values().cloned().collect();
        for role in held.iter().filter(|role| self.is_bound_by_namespace(role)) {
            let (name, binding) = self.binding(&role.name_any());
            let binding: RoleBinding = serde_json::from_value(binding).or_fail("a binding");
            let bound = bindings.patch(&name, &platform(), &Patch::Apply(binding)).await;
            bound.or_fail("a binding");
            self.wait_until_enforced(role, Some(namespace)).await;
        }
    }

    /// All rights of its roles.
    #[must_use]
    pub fn granted_rights(&self) -> BTreeSet<Right> {
        self.roles().values().flat_map(rights).collect()
    }

    /// Whether the API server grants the identity a right in a namespace.
    pub async fn is_allowed(
        &self,
        (group, resource, verb): &Right,
        namespace: Option<&str>,
    ) -> bool {
        // With the admin client, so that the audit log has no additional request of the identity.
        let reviews = Api::<SubjectAccessReview>::all(self.admin.clone());
        let review = json!({
            "metadata": {},
            "spec": {"user": self.user, "resourceAttributes": {
                "group": group, "resource": resource, "verb": verb, "namespace": namespace,
            }},
        });
        let review = serde_json::from_value(review).or_fail("a review");
        let reviewed = reviews.create(&PostParams::default(), &review).await;
        let reviewed = reviewed.or_fail("cannot review a right");
        reviewed.status.is_some_and(|status| status.allowed)
    }

    /// Waits until the API server enforces a role, which happens some time after the role is stored.
    async fn wait_until_enforced(&self, role: &ClusterRole, namespace: Option<&str>) {
        let rights = rights(role);
        let waits = rights.iter().map(|right| {
            until(format!("{right:?} to be allowed"), move || async move {
                self.is_allowed(right, namespace).await.then_some(())
            })
        });
        join_all(waits).await;
    }

    /// The name and the content of a role's binding.
    fn binding(&self, role: &str) -> (String, Value) {
        let name = format!("{}.{role}", self.user);
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": self.user}],
        });
        (name, binding)
    }

    fn is_bound_by_namespace(&self, role: &ClusterRole) -> bool {
        match self.writer_binding {
            WriterBinding::PerNamespace => is_writer(role),
            WriterBinding::ClusterWide => false,
        }
    }

    fn roles(&self) -> MutexGuard<'_, BTreeMap<String, ClusterRole>> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A blueprint of an XRD with one version, from which the roles are generated.
#[must_use]
pub fn blueprint(slug: &str, provider: &str, xrd: &Value, composed: &[Value]) -> Blueprint {
    let spec = &xrd["spec"];
    let kind = &spec["names"]["kind"];
    let [group, version] = [&spec["group"], &spec["versions"][0]["name"]]
        .map(|text| text.as_str().unwrap_or_default());
    let metadata = json!({
        "slug": slug, "displayName": slug, "description": "for a test", "version": version,
        "providerKinds": [provider], "injectionStrategy": "cloud-init-user-data",
        "parameterSchema": {"parameters": [{"name": "size", "type": "string"}]},
        "composedKinds": composed,
    });
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition",
        "metadata": {"name": slug},
        "spec": {
            "compositeTypeRef": {"apiVersion": format!("{group}/{version}"), "kind": kind},
            "mode": "Pipeline",
            "pipeline": [{"step": "compose", "functionRef": {"name": "any"}}],
        },
    });
    let [metadata, xrd, composition] = [&metadata, xrd, &composition].map(Value::to_string);
    let files = Files {
        metadata: metadata.as_bytes(),
        xrd: xrd.as_bytes(),
        composition: composition.as_bytes(),
    };
    read(slug, files).or_fail("a blueprint")
}

/// Whether a role is bound only in the namespaces of Projects.
fn is_writer(role: &ClusterRole) -> bool {
    let name = role.name_any();
    name.ends_with("-writer") && !name.ends_with("-cluster-writer")
}

fn rights(role: &ClusterRole) -> Vec<Right> {
    let mut rights = Vec::new();
    for rule in role.rules.iter().flatten() {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let right = |verb: &String| (group.clone(), resource.clone(), verb.clone());
                rights.extend(rule.verbs.iter().map(right));
            }
        }
    }
    rights
}

fn platform() -> PatchParams {
    PatchParams::apply("platform").force()
}
