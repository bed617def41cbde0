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
pub(crate) struct Holder {
    identity: BrokerIdentity,
    profiles: ProviderProfiles,
    blueprints: Mutex<Vec<Blueprint>>,
}

impl Holder {
    /// An identity without any right.
    pub(super) async fn new(cluster: &TestCluster, profiles: ProviderProfiles) -> Self {
        Self::of(BrokerIdentity::new(cluster, fresh_user()).await, profiles)
    }

    /// An identity without any right, which may write in every namespace what it learns of.
    pub(super) async fn everywhere(cluster: &TestCluster, profiles: ProviderProfiles) -> Self {
        Self::of(BrokerIdentity::everywhere(cluster, fresh_user()).await, profiles)
    }

    fn of(identity: BrokerIdentity, profiles: ProviderProfiles) -> Self {
        Self { identity, profiles, blueprints: Mutex::default() }
    }

    /// Gives it the roles for more blueprints.
    pub(super) async fn learn(&self, blueprints: impl IntoIterator<Item = Blueprint>) {
        let roles = {
            let mut known = self.blueprints.lock().unwrap();
            let before = known.len();
            for blueprint in blueprints {
                if known.iter().all(|known| known.slug != blueprint.slug) {
                    known.push(blueprint);
                }
            }
            if known.len() == before {
                return;
            }
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

/// The name of an identity that no other test has.
fn fresh_user() -> String {
    format!("broker-{}", fresh_id())
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
