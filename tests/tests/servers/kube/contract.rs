//! The contract of the cluster port, on a real API server with a garbage collector, with the
//! rights of the generated roles only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker_testkit::cluster::suite;
use broker_tests::TestCluster;
use broker_tests::cluster::AuditedRequest;
use broker_tests::rights::Right;

use super::roles::Holder;
use super::world::World;

/// Cases that write to a namespace which does not exist. No role can be bound there, so the API server forbids before
/// it looks for the namespace. These cases run with the writer role bound to the whole cluster.
const NOWHERE: &[&str] =
    &["a_deletion_in_an_absent_namespace_is_gone", "a_namespace_is_never_created"];

/// Which of the kinds of one sort a right was used on is up to the cases; the roles treat them alike.
fn sort((group, resource, verb): Right) -> Right {
    let alike = ["machines", "fleetings", "pickies"].contains(&&*resource);
    let sort = if alike { "composites in namespaces".to_owned() } else { resource };
    (group, sort, verb)
}

/// The rights that a request took. What is no object, such as discovery, takes none of ours.
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
    let broker = Arc::new(Holder::new(&cluster).await);
    let everywhere = Arc::new(Holder::everywhere(&cluster).await);
    let log = cluster.audit_log();
    let mark = log.mark();
    let suite = suite();
    let names: Vec<_> = suite.names().collect();
    for name in NOWHERE {
        assert!(names.contains(name), "there is no case {name}");
    }
    let next = AtomicUsize::new(0);
    // A world is made for each case, in their order.
    let fresh = || {
        let name = names[next.fetch_add(1, Ordering::Relaxed)];
        let broker = if NOWHERE.contains(&name) { &everywhere } else { &broker };
        World::new(&cluster, Arc::clone(broker))
    };
    suite.run(fresh).await.assert_passed();

    let requests = log.since(mark, &broker.user).await;
    let used: BTreeSet<_> = requests.iter().flat_map(used_by).collect();
    let granted = broker.granted();
    let beyond: Vec<_> = used.difference(&granted).collect();
    assert!(beyond.is_empty(), "not in the roles: {beyond:?}");
    let sorts = |rights: BTreeSet<Right>| rights.into_iter().map(sort).collect::<BTreeSet<_>>();
    let mut used = sorts(used);
    // No case deletes what stands in no namespace; the test of the roles themselves does.
    let elsewhere = ["contract.plexsphere.io", "estates", "delete"].map(str::to_owned);
    assert!(used.insert(elsewhere.into()), "a case uses it by now");
    assert_eq!(used, sorts(granted), "a right of the roles is not used");
}
