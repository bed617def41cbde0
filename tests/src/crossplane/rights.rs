//! What a replica may do: the roles that the binary prints for a catalog, bound as their comments say.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::failure::OrFail;
use crate::wait::until;

/// How the printed roles are called.
const BROKER: &str = "plexsphere-provisioning-broker";

/// Who gets rights, and where its Project is.
pub(super) struct Grantee<'a> {
    pub(super) admin: &'a Client,
    pub(super) user: &'a str,
    pub(super) home: &'a str,
}

impl Grantee<'_> {
    /// Creates the printed roles under a name that no other installation has, binds them, and waits until the API
    /// server knows.
    pub(super) async fn grant(&self, printed: &str, name: &str) {
        for role in printed.split("---\n").skip(1) {
            let role: ClusterRole =
                serde_saphyr::from_str(&role.replace(BROKER, name)).or_fail("a printed role");
            let (admin, create) = (self.admin.clone(), PostParams::default());
            let roles = Api::<ClusterRole>::all(admin.clone());
            roles.create(&create, &role).await.or_fail("a role");
            let called = role.name_any();
            if called == format!("{name}-writer") {
                let bindings = Api::<RoleBinding>::namespaced(admin, self.home);
                let binding = serde_json::from_value(self.binding(&called)).or_fail("a binding");
                bindings.create(&create, &binding).await.or_fail("a binding");
            } else {
                let bindings = Api::<ClusterRoleBinding>::all(admin);
                let binding = serde_json::from_value(self.binding(&called)).or_fail("a binding");
                bindings.create(&create, &binding).await.or_fail("a binding");
            }
            // Any right of a role stands for all of them.
            for rule in role.rules.iter().flatten().take(1) {
                self.until_known(rule).await;
            }
        }
    }

    fn binding(&self, role: &str) -> Value {
        json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.user,
            }],
        })
    }

    async fn until_known(&self, rule: &PolicyRule) {
        let first = |texts: &Option<Vec<String>>| {
            texts.as_ref().and_then(|texts| texts.first()).cloned().unwrap_or_default()
        };
        let verb = rule.verbs.first().cloned().unwrap_or_default();
        let asked = json!({
            "metadata": {},
            "spec": {"user": self.user, "resourceAttributes": {
                "group": first(&rule.api_groups), "resource": first(&rule.resources),
                "verb": verb, "namespace": self.home,
            }},
        });
        let asked = serde_json::from_value(asked).or_fail("a review");
        let reviews = Api::<SubjectAccessReview>::all(self.admin.clone());
        until(format!("{verb} of {} to be allowed", first(&rule.resources)), || async {
            let review = reviews.create(&PostParams::default(), &asked).await.or_fail("a review");
            review.status.is_some_and(|status| status.allowed).then_some(())
        })
        .await;
    }
}
