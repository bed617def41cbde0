//! What the adapter costs the API server, counted by the API server itself.

use broker_app::Passed;
use broker_domain::{Action, Phase};
use broker_kube::cache::CacheOptions;
use broker_ports::{CachedXr, Cluster};
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use broker_tests::{TestCluster, until};
use futures::{StreamExt, stream};
use kube::api::{DynamicObject, PostParams};

use super::adapter::adapter;
use super::cache::world::{World, run};
use super::fixture::Subject;

/// As many as the figure in the documentation says.
const MANY: usize = 10_000;

const PAGE: usize = 500;

async fn create(world: &World, resource: &Subject) {
    let manifest = serde_json::from_slice(&resource.shell().to_bytes()).unwrap();
    let object: DynamicObject = serde_json::from_value(manifest).unwrap();
    world.machines().create(&PostParams::default(), &object).await.unwrap();
}

/// On a control plane of its own: ten thousand objects are a flood to everybody else's.
#[tokio::test]
async fn ten_thousand_resources_cost_pages_when_cold_and_nothing_when_warm() {
    let dedicated = TestCluster::dedicated().await;
    let world = World::alone(&dedicated).await;
    let resources: Vec<_> = (0..MANY).map(|_| world.resource()).collect();
    stream::iter(&resources).for_each_concurrent(32, |resource| create(&world, resource)).await;
    let targets: Vec<_> = resources.iter().map(Subject::xr_target).collect();
    let (cluster, cache) = adapter(&*world.broker, CacheOptions::default());
    let log = world.cluster.audit_log();

    let mark = log.mark();
    let cold = cluster.observe_many(&targets).await.unwrap();
    let requests = log.since(mark, &world.broker.user).await;
    assert_eq!(requests.len(), MANY.div_ceil(PAGE), "one list for each page");
    assert!(requests.iter().all(|request| request.verb == "list"));

    let _running = run(&cache);
    until("the kind to be warm", || async { cache.warm(&world.xrd).map(drop) }).await;
    let mark = log.mark();
    let warm = cluster.observe_many(&targets).await.unwrap();
    assert_eq!(log.since(mark, &world.broker.user).await, [], "a warm cache asks nobody");

    for (cold, warm) in cold.into_iter().zip(warm) {
        let warm = warm.unwrap();
        assert!(matches!(warm, CachedXr::Seen { .. }));
        assert_eq!(warm, cold.unwrap(), "the cache and the list differ");
    }
}

#[tokio::test]
async fn a_pass_from_nothing_to_armed_are_three_writes_and_the_next_pass_none() {
    let world = RealWorld::new().await;
    let id = world.declare(&world.declaration(NODE)).await.unwrap().id();
    let armed = [("providerconfigs", 201), ("machines", 201), ("machines", 200)];
    let log = world.cluster.audit_log();
    for (from, to, expected) in [
        (Phase::Pending, Phase::Pending, &armed[..]),
        (Phase::Pending, Phase::Provisioning, &[]),
        (Phase::Provisioning, Phase::Provisioning, &[]),
    ] {
        let mark = log.mark();
        let passed = world.reconciler.reconcile(id).await.unwrap();
        assert_eq!(passed, Passed::Through { action: Action::Apply, from, to });
        let requests = log.since(mark, &world.user).await;
        assert!(!requests.is_empty(), "a pass looks");
        let writes = requests.iter().filter(|request| request.is_write());
        let writes: Vec<_> = writes.map(|write| (&*write.resource, write.code)).collect();
        assert_eq!(writes, expected);
    }
}
