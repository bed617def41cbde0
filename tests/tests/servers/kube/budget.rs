//! What the adapter costs the API server, counted by the API server itself.

use broker_kube::cache::CacheOptions;
use broker_ports::{CachedXr, Cluster, Reading, XrReading};
use broker_render::{Precondition, is_applied};
use broker_tests::{TestCluster, until};
use futures::{StreamExt, stream};
use kube::api::{DynamicObject, PostParams};

use super::cache::world::{Resource, World, adapter, done, run};

/// As many as the figure in the documentation says.
const MANY: usize = 10_000;

const PAGE: usize = 500;

async fn create(world: &World, resource: &Resource) {
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
    let targets: Vec<_> = resources.iter().map(Resource::xr_target).collect();
    let counted = world.cluster.identity_in("counted", "system:masters").await;
    let (cluster, cache) = adapter(&counted, CacheOptions::default());
    let log = world.cluster.audit_log();

    let mark = log.mark();
    let cold = cluster.observe_many(&targets).await.unwrap();
    let requests = log.since(mark, "counted").await;
    assert_eq!(requests.len(), MANY.div_ceil(PAGE), "one list for each page");
    assert!(requests.iter().all(|request| request.verb == "list"));

    let _running = run(&cache);
    until("the kind to be warm", || async { cache.warm(&world.xrd).map(drop) }).await;
    let mark = log.mark();
    let warm = cluster.observe_many(&targets).await.unwrap();
    assert_eq!(log.since(mark, "counted").await, [], "a warm cache asks nobody");

    for (cold, warm) in cold.into_iter().zip(warm) {
        let warm = warm.unwrap();
        assert!(matches!(warm, CachedXr::Seen { .. }));
        assert_eq!(warm, cold.unwrap(), "the cache and the list differ");
    }
}

async fn read(cluster: &dyn Cluster, resource: &Resource) -> Reading {
    cluster.read(&resource.target(&[])).await.unwrap()
}

#[tokio::test]
async fn from_nothing_to_armed_are_three_writes_and_then_none() {
    let world = World::alone(&TestCluster::shared().await).await;
    world.install_neighbours().await;
    let name = format!("counted-{}", world.group);
    let counted = world.cluster.identity_in(&name, "system:masters").await;
    let (cluster, _) = adapter(&counted, CacheOptions::default());
    let resource = world.resource();
    let log = world.cluster.audit_log();
    let mark = log.mark();

    let reading = read(&*cluster, &resource).await;
    assert!(matches!(reading.xr, XrReading::Absent) && reading.provider_config.is_none());
    let config = resource.request(resource.provider_config(), Precondition::Absent);
    done(cluster.apply(&config).await);
    let shell = resource.start(&cluster).await;
    done(cluster.apply(&resource.request(resource.armed(), shell.unchanged())).await);

    let writes = |requests: Vec<broker_tests::cluster::AuditedRequest>| {
        let reads = ["get", "list", "watch"];
        let writes = requests.into_iter().filter(|request| !reads.contains(&&*request.verb));
        writes.map(|write| (write.verb, write.resource, write.code)).collect::<Vec<_>>()
    };
    let sent = writes(log.since(mark, &name).await);
    let expected = [
        ("patch".to_owned(), "providerconfigs".to_owned(), 201),
        ("patch".to_owned(), "machines".to_owned(), 201),
        ("patch".to_owned(), "machines".to_owned(), 200),
    ];
    assert_eq!(sent, expected);

    // What the next pass reads is what it would send, so it sends nothing.
    let mark = log.mark();
    let reading = read(&*cluster, &resource).await;
    let XrReading::Present(live) = reading.xr else { panic!("it stands") };
    let config = reading.provider_config.unwrap();
    assert!(is_applied(live.object.expose(), &resource.armed()));
    assert!(is_applied(config.expose(), &resource.provider_config()));
    assert_eq!(writes(log.since(mark, &name).await), []);
}
