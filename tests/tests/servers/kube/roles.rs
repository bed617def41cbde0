//! Somebody who has exactly the roles that are generated from a catalog, each bound as its comment says, and
//! what of them was used.

use std::collections::BTreeSet;
use std::sync::Mutex;

use broker_kube::rbac;
use broker_render::ProviderProfiles;
use broker_render::catalog::{Blueprint, Files, read};
use broker_tests::cluster::AuditedRequest;
use broker_tests::{TestCluster, until};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::world::fresh_id;

/// A right, or the use of one: API group, plural and verb.
pub(super) type Right = (String, String, String);

/// How the generated roles are called.
const BROKER: &str = "plexsphere-provisioning-broker";

/// A blueprint of an XRD in one version, whose machines take a size.
pub(super) fn blueprint(slug: &str, provider: &str, xrd: &Value, composed: &[Value]) -> Blueprint {
    let spec = &xrd["spec"];
    let kind = &spec["names"]["kind"];
    let [group, version] =
        [&spec["group"], &spec["versions"][0]["name"]].map(|text| text.as_str().unwrap());
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
    read(slug, files).unwrap()
}

/// Somebody with the roles for a catalog, which may grow.
pub(super) struct Holder {
    admin: Client,
    /// As whom it asks.
    pub(super) client: Client,
    /// Its name, and that of its roles: roles have no namespace, and other tests share the cluster.
    pub(super) user: String,
    profiles: ProviderProfiles,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    blueprints: Vec<Blueprint>,
    roles: Vec<ClusterRole>,
}

impl Holder {
    /// Somebody without any right.
    pub(super) async fn new(cluster: &TestCluster, profiles: ProviderProfiles) -> Self {
        let user = format!("broker-{}", fresh_id());
        let (admin, client) = (cluster.admin().await, cluster.identity(&user).await);
        Self { admin, client, user, profiles, held: Mutex::default() }
    }

    /// Gives it the roles for one blueprint more, and waits until the API server knows of them.
    pub(super) async fn learn(&self, blueprint: Blueprint) {
        let new = {
            let mut held = self.held.lock().unwrap();
            if held.blueprints.iter().any(|known| known.slug == blueprint.slug) {
                return;
            }
            held.blueprints.push(blueprint);
            let roles = rbac(&held.blueprints, &self.profiles).replace(BROKER, &self.user);
            let roles = roles.split("---\n").skip(1);
            held.roles = roles.map(|role| serde_saphyr::from_str(role).unwrap()).collect();
            held.roles.clone()
        };
        for role in &new {
            let name = role.metadata.name.as_deref().unwrap();
            let parameters = PatchParams::apply("broker-tests").force();
            let roles = Api::<ClusterRole>::all(self.admin.clone());
            roles.patch(name, &parameters, &Patch::Apply(role)).await.unwrap();
            if self.is_writer(role) {
                continue;
            }
            let binding: ClusterRoleBinding = serde_json::from_value(self.binding(name)).unwrap();
            let bindings = Api::<ClusterRoleBinding>::all(self.admin.clone());
            bindings.patch(name, &parameters, &Patch::Apply(binding)).await.unwrap();
            self.until_known(role, None).await;
        }
    }

    /// Lets it write in a namespace.
    pub(super) async fn admit_to(&self, namespace: &str) {
        let writer = self.roles().into_iter().find(|role| self.is_writer(role)).unwrap();
        let name = writer.metadata.name.as_deref().unwrap();
        let binding: RoleBinding = serde_json::from_value(self.binding(name)).unwrap();
        let bindings = Api::<RoleBinding>::namespaced(self.admin.clone(), namespace);
        bindings.create(&PostParams::default(), &binding).await.unwrap();
        self.until_known(&writer, Some(namespace)).await;
    }

    /// Every right of its roles.
    pub(super) fn granted(&self) -> BTreeSet<Right> {
        self.roles().iter().flat_map(rights).collect()
    }

    fn roles(&self) -> Vec<ClusterRole> {
        self.held.lock().unwrap().roles.clone()
    }

    /// Whether a role is for the namespaces of Projects only.
    fn is_writer(&self, role: &ClusterRole) -> bool {
        role.metadata.name == Some(format!("{}-writer", self.user))
    }

    fn binding(&self, role: &str) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.user,
            }],
        })
    }

    /// The API server learns of a role a moment after it was stored. It is asked as somebody else, so that
    /// no request is counted that the adapter did not make.
    async fn until_known(&self, role: &ClusterRole, namespace: Option<&str>) {
        let reviews = Api::<SubjectAccessReview>::all(self.admin.clone());
        for (group, resource, verb) in rights(role) {
            let asked = json!({
                "metadata": {},
                "spec": {"user": self.user, "resourceAttributes": {
                    "group": group, "resource": resource, "verb": verb, "namespace": namespace,
                }},
            });
            let asked = serde_json::from_value(asked).unwrap();
            until(format!("{verb} of {resource} to be allowed"), || async {
                let review = reviews.create(&PostParams::default(), &asked).await.unwrap();
                review.status.is_some_and(|status| status.allowed).then_some(())
            })
            .await;
        }
    }
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

/// The rights that requests took. What is no object, such as discovery, takes none of ours.
pub(super) fn used(requests: &[AuditedRequest]) -> BTreeSet<Right> {
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    requests.iter().flat_map(used_by).collect()
}

fn used_by(request: &AuditedRequest) -> Vec<Right> {
    if request.resource.is_empty() {
        return Vec::new();
    }
    let right = |verb: &str| (request.group.clone(), request.resource.clone(), verb.to_owned());
    match (request.verb.as_str(), request.code) {
        ("patch", 201) => vec![right("patch"), right("create")],
        (verb, _) => vec![right(verb)],
    }
}
