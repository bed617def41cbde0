//! The contract of the cluster port, on a real API server with a garbage collector, with the
//! rights of the generated roles only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker_testkit::cluster::suite;
use broker_tests::TestCluster;
use broker_tests::cluster::AuditedRequest;
use broker_tests::rights::Right;

use super::roles::CatalogIdentity;
use super::world::World;

/// Cases that write to a namespace which does not exist. No role can be bound there, so the API server forbids before
/// it looks for the namespace. These cases run with the writer role bound to the whole cluster.
const ABSENT_NAMESPACE_CASES: &[&str] =
    &["a_deletion_in_an_absent_namespace_is_gone", "a_namespace_is_never_created"];

/// Replaces the plurals of the suite's namespaced composite resources with one name: the roles treat these kinds alike.
fn generalize((group, resource, verb): Right) -> Right {
    let alike = ["machines", "fleetings", "pickies"].contains(&&*resource);
    let plural = if alike { "composites in namespaces".to_owned() } else { resource };
    (group, plural, verb)
}

/// The rights that a request used. Requests without an object, such as discovery, need no granted right.
fn used_by(request: &AuditedRequest) -> Vec<Right> {
    assert_ne!(request.code, 403, "{request:?}");
    if request.resource.is_empty() {
        return Vec::new();
    }
    let right = |verb: &str| (request.group.clone(), request.resource.clone(), verb.to_owned());
    match (request.verb.as_str(), request.code) {
        ("patch", 201) => vec![right("patch"), right("create")],
        (verb, _) => vec![right(verb)],
    }
}

#[tokio::test]
async fn the_kubernetes_adapter_keeps_the_contract_of_its_port() {
    let cluster = TestCluster::shared().await;
    let broker = Arc::new(CatalogIdentity::new(&cluster).await);
    let everywhere = Arc::new(CatalogIdentity::with_cluster_wide_writer(&cluster).await);
    let log = cluster.audit_log();
    let mark = log.mark();
    let suite = suite();
    let names: Vec<_> = suite.names().collect();
    for name in ABSENT_NAMESPACE_CASES {
        assert!(names.contains(name), "no case is named {name}");
    }
    let next = AtomicUsize::new(0);
    // The suite creates one world per case, in this order.
    let fresh = || {
        let name = names[next.fetch_add(1, Ordering::Relaxed)];
        let broker = if ABSENT_NAMESPACE_CASES.contains(&name) { &everywhere } else { &broker };
        World::new(&cluster, Arc::clone(broker))
    };
    suite.run(fresh).await.assert_passed();

    let requests = log.since(mark, &broker.user).await;
    let used: BTreeSet<_> = requests.iter().flat_map(used_by).collect();
    let granted = broker.granted_rights();
    let not_granted: Vec<_> = used.difference(&granted).collect();
    assert!(not_granted.is_empty(), "not in the roles: {not_granted:?}");
    let generalized =
        |rights: BTreeSet<Right>| rights.into_iter().map(generalize).collect::<BTreeSet<_>>();
    let mut used = generalized(used);
    // No case uses this right; a test of the generated roles covers it.
    let cluster_scoped = ["contract.plexsphere.io", "estates", "delete"].map(str::to_owned);
    assert!(used.insert(cluster_scoped.into()), "a case uses this right");
    assert_eq!(used, generalized(granted), "a right of the roles is not used");
}
