//! The broker's identity with the roles of a catalog that grows, and which of its rights were used.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Mutex;

use broker_kube::rbac;
use broker_render::ProviderProfiles;
use broker_render::catalog::Blueprint;
use broker_tests::TestCluster;
use broker_tests::cluster::AuditedRequest;
use broker_tests::rights::{BrokerIdentity, Right};

use super::world::fresh_id;

/// The broker's identity, whose catalog may grow.
pub(super) struct Holder {
    identity: BrokerIdentity,
    profiles: ProviderProfiles,
    blueprints: Mutex<Vec<Blueprint>>,
}

impl Holder {
    /// An identity without any right.
    pub(super) async fn new(cluster: &TestCluster, profiles: ProviderProfiles) -> Self {
        let identity = BrokerIdentity::new(cluster, format!("broker-{}", fresh_id())).await;
        Self { identity, profiles, blueprints: Mutex::default() }
    }

    /// Gives it the roles for one blueprint more.
    pub(super) async fn learn(&self, blueprint: Blueprint) {
        let roles = {
            let mut known = self.blueprints.lock().unwrap();
            if known.iter().any(|known| known.slug == blueprint.slug) {
                return;
            }
            known.push(blueprint);
            rbac(&*known, &self.profiles)
        };
        self.identity.grant(&roles, &self.identity.user).await;
    }
}

impl Deref for Holder {
    type Target = BrokerIdentity;

    fn deref(&self) -> &BrokerIdentity {
        &self.identity
    }
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
