//! What the adapter costs the API server, counted by the API server itself.

use std::sync::Arc;

use broker_app::Passed;
use broker_domain::{Action, BlueprintVersionId, Declaration, MeshRole, Phase};
use broker_kube::cache::CacheOptions;
use broker_memory::BlueprintDocuments;
use broker_ports::{
    CachedXr, CloudView, Cluster, CredentialView, NamespaceObservation, OwnedKinds, OwnedObject,
    OwnedQuery, Reading, XrReading,
};
use broker_render::{InjectionStrategy, Precondition, Provider, Scope, is_applied, namespace};
use broker_tests::cluster::AuditedRequest;
use broker_tests::world::World as Broker;
use broker_tests::{TestCluster, until};
use futures::{StreamExt, stream};
use kube::api::{DynamicObject, ListParams, ObjectMeta, PostParams};

use super::adapter::adapter;
use super::cache::world::{Resource, World, done, fresh, plain_crd, run, xrd_document};

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

/// Everything of ours, page by page.
async fn owned(cluster: &dyn Cluster, world: &World) -> Vec<OwnedObject> {
    let configs = (format!("{}/v1beta1", world.group), "ProviderConfig".to_owned());
    let mut query = OwnedQuery::new(OwnedKinds::new(vec![Arc::clone(&world.xrd)], vec![configs]));
    let mut all = Vec::new();
    loop {
        let page = cluster.list_owned(&query).await.unwrap();
        all.extend(page.objects);
        let Some(next) = page.next else { break };
        query = query.after(next);
    }
    all.sort_by(|one, other| one.reference.cmp(&other.reference));
    all
}

#[tokio::test]
async fn what_is_ours_costs_lists_when_cold_and_nothing_when_warm() {
    let world = World::alone(&TestCluster::shared().await).await;
    world.install_neighbours().await;
    let (cluster, cache) = adapter(&*world.broker, CacheOptions::default());
    for _ in 0..7 {
        let resource = world.resource();
        resource.start(&cluster).await;
        let config = resource.request(resource.provider_config(), Precondition::Absent);
        done(cluster.apply(&config).await);
    }
    let mut stranger = world.machines().list(&ListParams::default()).await.unwrap().items.remove(0);
    stranger.metadata = ObjectMeta {
        name: Some("somebodys".into()),
        labels: stranger.metadata.labels,
        ..ObjectMeta::default()
    };
    world.machines().create(&PostParams::default(), &stranger).await.unwrap();

    let log = world.cluster.audit_log();
    let mark = log.mark();
    let cold = owned(&*cluster, &world).await;
    let requests = log.since(mark, &world.broker.user).await;
    assert_eq!(requests.iter().filter(|request| request.verb == "list").count(), 2);
    assert_eq!(cold.len(), 15, "seven of each, and one with another name");

    let _running = run(&cache);
    until("everything to be warm", || async { cache.identity() }).await;
    let mark = log.mark();
    let warm = owned(&*cluster, &world).await;
    let identity = cluster.identity().await.unwrap();
    assert_eq!(log.since(mark, &world.broker.user).await, [], "a warm cache asks nobody");
    assert_eq!(warm, cold, "the cache and the lists differ");
    let read = cluster.read(&world.resource().target(&[])).await.unwrap();
    assert_eq!(identity, read.cluster);
}

/// Verb, plural and status of what was not only looked at.
fn writes(requests: Vec<AuditedRequest>) -> Vec<(String, String, u16)> {
    let reads = ["get", "list", "watch"];
    let writes = requests.into_iter().filter(|request| !reads.contains(&&*request.verb));
    writes.map(|write| (write.verb, write.resource, write.code)).collect()
}

/// ProviderConfig, shell, arm.
fn from_nothing_to_armed() -> Vec<(String, String, u16)> {
    let writes = [("providerconfigs", 201), ("machines", 201), ("machines", 200)];
    writes.map(|(plural, code)| ("patch".to_owned(), plural.to_owned(), code)).into()
}

async fn read(cluster: &dyn Cluster, resource: &Resource) -> Reading {
    cluster.read(&resource.target(&[])).await.unwrap()
}

#[tokio::test]
async fn from_nothing_to_armed_are_three_writes_and_then_none() {
    let world = World::alone(&TestCluster::shared().await).await;
    world.install_neighbours().await;
    let (cluster, _) = adapter(&*world.broker, CacheOptions::default());
    let resource = world.resource();
    let log = world.cluster.audit_log();
    let mark = log.mark();

    let reading = read(&*cluster, &resource).await;
    assert!(matches!(reading.xr, XrReading::Absent) && reading.provider_config.is_none());
    let config = resource.request(resource.provider_config(), Precondition::Absent);
    done(cluster.apply(&config).await);
    let shell = resource.start(&cluster).await;
    done(cluster.apply(&resource.request(resource.armed(), shell.unchanged())).await);

    assert_eq!(writes(log.since(mark, &world.broker.user).await), from_nothing_to_armed());

    // What the next pass reads is what it would send, so it sends nothing.
    let mark = log.mark();
    let reading = read(&*cluster, &resource).await;
    let XrReading::Present(live) = reading.xr else { panic!("it stands") };
    let config = reading.provider_config.unwrap();
    assert!(is_applied(live.object.expose(), &resource.armed()));
    assert!(is_applied(config.expose(), &resource.provider_config()));
    assert_eq!(writes(log.since(mark, &world.broker.user).await), []);
}

/// A broker in memory over a real cluster, and a declaration of a Node that it accepts.
async fn broker_over(world: &World, cluster: Arc<dyn Cluster>) -> (Broker, Declaration) {
    let mut broker = Broker::new();
    broker.rewire(|ports| ports.cluster = cluster);
    let (provider, _) = world.group.split_once('.').unwrap();
    world.learn("node", provider, &xrd_document(&world.group, Scope::Namespaced)).await;
    let configs = format!("{provider}.crossplane.io");
    let configs = plain_crd(&configs, "v1beta1", "ProviderConfig", "providerconfigs");
    world.cluster.install_crd(configs).await;
    let (cloud, credential, blueprint) = (fresh(), fresh(), fresh::<BlueprintVersionId>());
    let declared_for = fresh();
    let provider = Provider::new(provider).unwrap();
    broker.neighbours.add_cloud(CloudView::new(cloud, provider, r#"{"region":"here"}"#));
    broker.neighbours.add_credential(CredentialView::new(credential, cloud, "kv", "team/cloud"));
    broker.neighbours.assign(world.project, credential);
    broker.neighbours.add_resource(world.project, declared_for);
    let home = namespace(world.project).as_str().to_owned();
    broker.neighbours.place(world.project, NamespaceObservation::new(home, true));
    let documents = BlueprintDocuments {
        xrd: xrd_document(&world.group, Scope::Namespaced).to_string().into_bytes(),
        composition: BlueprintDocuments::composition_named("machines"),
        parameter_schema: br#"{"parameters":[]}"#.to_vec(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: MeshRole::Node,
        composed_kinds: vec![world.part()],
    };
    broker.neighbours.publish(blueprint, documents);
    (broker, Declaration::new(world.project, declared_for, blueprint, credential))
}

#[tokio::test]
async fn a_pass_from_nothing_to_armed_are_three_writes_and_the_next_pass_none() {
    let world = World::alone(&TestCluster::shared().await).await;
    world.install_neighbours().await;
    let (cluster, _) = adapter(&*world.broker, CacheOptions::default());
    let (broker, declaration) = broker_over(&world, cluster).await;
    let resource = broker.declare(&declaration).await.unwrap();
    let log = world.cluster.audit_log();

    let mark = log.mark();
    let passed = broker.reconciler.reconcile(resource.id()).await.unwrap();
    let created =
        Passed::Through { action: Action::Apply, from: Phase::Pending, to: Phase::Pending };
    assert_eq!(passed, created);
    assert_eq!(writes(log.since(mark, &world.broker.user).await), from_nothing_to_armed());
    let live = world.machines().get(resource.xr_name().as_str()).await.unwrap();
    assert!(live.metadata.annotations.unwrap().contains_key("plexsphere.io/armed"));

    for from in [Phase::Pending, Phase::Provisioning] {
        let mark = log.mark();
        let passed = broker.reconciler.reconcile(resource.id()).await.unwrap();
        let waits = Passed::Through { action: Action::Apply, from, to: Phase::Provisioning };
        assert_eq!(passed, waits);
        let requests = log.since(mark, &world.broker.user).await;
        assert!(!requests.is_empty(), "a pass looks");
        assert_eq!(writes(requests), []);
    }
}
