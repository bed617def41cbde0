//! The watch cache against the real API server, with everything that may happen to a watch.

pub(crate) mod world;

use std::time::Duration;

use broker_kube::KubeCluster;
use broker_kube::cache::{Cache, CacheOptions};
use broker_ports::{CachedXr, Hints};
use broker_render::MANAGED_BY_LABEL;
use broker_tests::proxy::{HttpAnswer, Request};
use broker_tests::{HttpProxy, TestCluster, crd, until};
use futures::StreamExt;
use http::StatusCode;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::adapter::{adapter, proxied};
use super::fixture::{Subject, done};
use world::{World, observed, run, version_of, xrd_document};

/// Waits that no test has to sit out.
fn quick() -> CacheOptions {
    CacheOptions::default().with_waits(Duration::from_millis(10), Duration::from_millis(100))
}

async fn until_warm(cache: &Cache, world: &World) {
    until("the kind to be warm", || async { cache.warm(&world.xrd).map(drop) }).await;
}

/// Waits until the cache itself, and not a list in its stead, shows a resource as it stands.
async fn until_current(cache: &Cache, world: &World, resource: &Subject) {
    let live = world.live(resource).await;
    let live = live.and_then(|live| live.metadata.resource_version);
    until("the cache to show what stands", || async {
        let seen = cache.warm(&world.xrd)?.observe(&resource.xr_target());
        (version_of(&seen).map(|version| &version.resource_version) == live.as_ref()).then_some(())
    })
    .await;
}

async fn hint(hints: &mut Hints, about: &Subject) {
    while hints.next().await.expect("the hints ended") != about.identity.resource {}
}

fn is_watch(request: &Request) -> bool {
    request.target.contains("watch=true")
}

fn is_list(request: &Request) -> bool {
    request.verb == "GET" && request.target.contains("limit=") && !is_watch(request)
}

/// How often the script's proxy was asked.
type Wanted = fn(&Request) -> bool;

fn count(proxy: &HttpProxy, wanted: Wanted) -> usize {
    proxy.script().seen().iter().filter(|request| wanted(request)).count()
}

#[tokio::test]
async fn a_warm_cache_follows_what_happens() {
    let world = World::alone(&TestCluster::shared().await).await;
    let (cluster, cache) = adapter(&*world.broker, quick());
    let before = world.resource();
    before.start(&cluster).await;
    let _running = run(&cache);
    cache.track(&world.xrd);
    until_warm(&cache, &world).await;
    until_current(&cache, &world, &before).await;

    let mut hints = cache.hints();
    let resource = world.resource();
    let shell = resource.start(&cluster).await;
    hint(&mut hints, &resource).await;
    until_current(&cache, &world, &resource).await;
    let armed = resource.request(resource.armed(), shell.unchanged());
    let armed = done(broker_ports::Cluster::apply(&*cluster, &armed).await);
    hint(&mut hints, &resource).await;
    until_current(&cache, &world, &resource).await;
    let seen = observed(&cluster, &resource).await.unwrap();
    let CachedXr::Seen { version, owned, .. } = seen else { panic!("it was seen") };
    assert_eq!((version, owned), (armed, resource.armed().digest()));

    world.delete(&resource).await;
    hint(&mut hints, &resource).await;
    until_current(&cache, &world, &resource).await;
    assert_eq!(observed(&cluster, &resource).await.unwrap(), CachedXr::Absent);
    until_current(&cache, &world, &before).await;
}

#[tokio::test]
async fn what_loses_our_label_leaves_the_cache_with_a_hint_and_stands() {
    let world = World::alone(&TestCluster::shared().await).await;
    let (cluster, cache) = adapter(&*world.broker, quick());
    let _running = run(&cache);
    let resource = world.resource();
    resource.start(&cluster).await;
    until_current(&cache, &world, &resource).await;

    let mut hints = cache.hints();
    world.patch(&resource, json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}})).await;
    hint(&mut hints, &resource).await;
    let warm = cache.warm(&world.xrd).expect("a label does not cool a kind");
    assert_eq!(warm.observe(&resource.xr_target()), CachedXr::Absent);
    assert!(world.live(&resource).await.is_some(), "absence in a cache proves nothing");
}

/// A world whose cache runs behind a proxy that does something to the first watch.
async fn disturbed(disturb: impl FnOnce(&HttpProxy), options: CacheOptions) -> Disturbed {
    let world = World::alone(&TestCluster::shared().await).await;
    let (proxy, client) = proxied(&world.broker).await;
    disturb(&proxy);
    let (cluster, cache) = adapter(&client, options);
    let running = run(&cache);
    cache.track(&world.xrd);
    Disturbed { world, proxy, cluster, cache, _running: running }
}

struct Disturbed {
    world: World,
    proxy: HttpProxy,
    cluster: std::sync::Arc<KubeCluster>,
    cache: std::sync::Arc<Cache>,
    _running: tokio::task::JoinSet<()>,
}

impl Disturbed {
    /// A change that the first watch should have told of, and the second has to. Lists and watches so far.
    async fn recover(&self) -> (usize, usize) {
        until("the first watch", || async { (count(&self.proxy, is_watch) > 0).then_some(()) })
            .await;
        let resource = self.world.resource();
        resource.start(&self.cluster).await;
        until_current(&self.cache, &self.world, &resource).await;
        self.world.patch(&resource, json!({"metadata": {"annotations": {"a": "b"}}})).await;
        until_current(&self.cache, &self.world, &resource).await;
        (count(&self.proxy, is_list), count(&self.proxy, is_watch))
    }
}

/// Whatever ends a watch, or a list before it: the cache begins with a new list. The server may have come back over
/// another store.
#[tokio::test]
async fn watch_that_fails_in_any_way_begins_with_a_new_list() {
    let line = json!({"type": "ERROR", "object": {
        "kind": "Status", "code": 410, "reason": "Expired", "message": "too old",
    }});
    let expired = HttpAnswer::failure(StatusCode::GONE, "Expired", "too old resource version");
    let busy = HttpAnswer::failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "slow down");
    let (watch, list): (Wanted, Wanted) = (is_watch, is_list);
    let rows = [
        ("refused as expired", watch, expired, (2, 2)),
        ("expires on its way", watch, HttpAnswer::ok(format!("{line}\n")), (2, 2)),
        ("cut within a line", watch, HttpAnswer::servers().cut_after(100), (2, 2)),
        ("throttled", list, busy.with_header("Retry-After", "1"), (2, 1)),
    ];
    for (why, wanted, answer, lists_and_watches) in rows {
        let disturb = |proxy: &HttpProxy| {
            proxy.script().first(wanted).before_answer().answer(answer);
        };
        let found = disturbed(disturb, quick()).await.recover().await;
        assert_eq!(found, lists_and_watches, "{why}");
    }
}

#[tokio::test]
async fn a_watch_whose_answer_never_begins_is_given_up() {
    let disturb = |proxy: &HttpProxy| {
        proxy.script().first(is_watch).before_answer().answer(HttpAnswer::half_a_head());
    };
    let options = quick().with_request_timeout(Duration::from_secs(3));
    let (_, watches) = disturbed(disturb, options).await.recover().await;
    assert!(watches >= 2, "{watches} watches");
}

#[tokio::test]
async fn a_watch_that_says_nothing_is_given_up() {
    let silent = HttpAnswer::servers().stalled_after(0);
    let disturb = |proxy: &HttpProxy| proxy.script().first(is_watch).before_answer().answer(silent);
    let options = quick().with_silence(Duration::from_secs(2));
    let (lists, watches) = disturbed(disturb, options).await.recover().await;
    assert!(lists >= 2 && watches >= 2, "{lists} lists, {watches} watches");
}

/// However well a watch is, what it leaves out is found: by a list, and with a hint.
#[tokio::test]
async fn a_watch_that_leaves_something_out_is_not_believed_for_ever() {
    let deaf = HttpAnswer::servers().stalled_after(0);
    let disturb = |proxy: &HttpProxy| proxy.script().first(is_watch).before_answer().answer(deaf);
    let options = quick().with_relist_after(Duration::from_secs(2));
    let disturbed = disturbed(disturb, options).await;
    let mut hints = disturbed.cache.hints();
    let proxy = &disturbed.proxy;
    until("the first watch", || async { (count(proxy, is_watch) > 0).then_some(()) }).await;
    let resource = disturbed.world.resource();
    resource.start(&disturbed.cluster).await;
    hint(&mut hints, &resource).await;
    until_current(&disturbed.cache, &disturbed.world, &resource).await;
    assert!(count(&disturbed.proxy, is_list) >= 2, "only a list can have told");
}

/// An etcd that is restored goes back to old versions, and uses later ones a second time. The cache must not go on
/// from where it was.
#[tokio::test]
async fn restored_store_is_noticed_when_the_watch_is_established() {
    let dedicated = TestCluster::dedicated().await;
    let world = World::alone(&dedicated).await;
    let (cluster, cache) = adapter(&*world.broker, quick());
    let _running = run(&cache);
    let (stays, lost) = (world.resource(), world.resource());
    stays.start(&cluster).await;
    dedicated.back_up().await;
    until("the kind to be served", || async {
        world.machines().list(&ListParams::default()).await.ok()
    })
    .await;

    lost.start(&cluster).await;
    for number in 0..50 {
        let annotations = json!({"a": number.to_string()});
        world.patch(&stays, json!({"metadata": {"annotations": annotations}})).await;
    }
    until_current(&cache, &world, &stays).await;
    until_current(&cache, &world, &lost).await;
    let mut hints = cache.hints();
    dedicated.restore_back_up().await;

    hint(&mut hints, &lost).await;
    until_current(&cache, &world, &stays).await;
    let warm = cache.warm(&world.xrd).unwrap();
    assert_eq!(warm.observe(&lost.xr_target()), CachedXr::Absent, "the store has lost it");
    // Below the version that the cache had reached: today's changes are followed.
    let new = world.resource();
    new.start(&cluster).await;
    hint(&mut hints, &new).await;
    until_current(&cache, &world, &new).await;
}

fn is_identity(request: &Request) -> bool {
    request.target.ends_with("/namespaces/kube-system")
}

/// A version of one cluster means nothing on another: only a list tells what it has.
#[tokio::test]
async fn a_watch_is_not_taken_up_on_another_cluster() {
    let elsewhere = json!({"metadata": {"uid": "another-cluster", "resourceVersion": "1"}});
    let elsewhere = HttpAnswer::ok(elsewhere.to_string());
    let disturb = |proxy: &HttpProxy| {
        proxy.script().first(is_identity).before_forward().answer(elsewhere);
    };
    let disturbed = disturbed(disturb, quick()).await;
    until_warm(&disturbed.cache, &disturbed.world).await;
    let here = read_identity(&disturbed.world).await;
    assert_eq!(disturbed.cache.identity().map(|known| known.as_str().to_owned()), Some(here));
    assert_eq!(count(&disturbed.proxy, is_list), 2, "what was listed elsewhere is no answer");
}

async fn read_identity(world: &World) -> String {
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.admin.clone());
    namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap()
}

/// Which cluster it is, is known for as long as every watch goes on, and read again when one begins anew.
#[tokio::test]
async fn the_identity_is_that_of_the_watches() {
    let world = World::alone(&TestCluster::shared().await).await;
    world.install_neighbours().await;
    let (proxy, client) = proxied(&world.broker).await;
    let (cluster, cache) = adapter(&client, quick());
    assert_eq!(cache.identity(), None, "nothing is followed");
    let _running = run(&cache);
    until_warm(&cache, &world).await;
    let here = read_identity(&world).await;
    let asked = count(&proxy, is_identity);
    let known = broker_ports::Cluster::identity(&*cluster).await.unwrap();
    assert_eq!((known.as_str(), count(&proxy, is_identity)), (&*here, asked), "it was not asked");

    // A kind that is not warm may stand anywhere.
    let mut held = proxy.script().first(is_watch).before_forward().hold();
    cache.track_provider_configs(&format!("{}/v1beta1", world.group), "providerconfigs");
    held.reached().await;
    assert_eq!(cache.identity(), None);
    let asked = count(&proxy, is_identity);
    let known = broker_ports::Cluster::identity(&*cluster).await.unwrap();
    assert_eq!((known.as_str(), count(&proxy, is_identity)), (&*here, asked + 1), "it was asked");
    held.release();
    until("everything to be warm", || async { cache.identity() }).await;
}

#[tokio::test]
async fn a_list_that_breaks_off_is_not_half_believed() {
    let world = World::alone(&TestCluster::shared().await).await;
    let (direct, _) = adapter(&*world.broker, quick());
    let resource = world.resource();
    resource.start(&direct).await;
    let (proxy, client) = proxied(&world.broker).await;
    // As much as says that there is nothing.
    let mut held = proxy.script().first(is_watch).before_forward().hold();
    proxy.script().first(is_list).before_answer().answer(HttpAnswer::servers().cut_after(60));
    let (_, cache) = adapter(&client, quick());
    let _running = run(&cache);
    cache.track(&world.xrd);
    held.reached().await;
    assert_eq!(count(&proxy, is_list), 2);
    assert!(cache.warm(&world.xrd).is_none(), "there is no watch yet");
    held.release();
    until_current(&cache, &world, &resource).await;
}

#[tokio::test]
async fn late_and_doubled_events_do_not_change_the_cache() {
    let world = World::alone(&TestCluster::shared().await).await;
    let (direct, _) = adapter(&*world.broker, quick());
    let (stands, gone) = (world.resource(), world.resource());
    for resource in [&stands, &gone] {
        resource.start(&direct).await;
    }
    let of = |kind: &str, object: &Value| format!("{}\n", json!({"type": kind, "object": object}));
    let live = |resource: Option<kube::api::DynamicObject>| serde_json::to_value(resource).unwrap();
    let (stale, late) = (live(world.live(&stands).await), live(world.live(&gone).await));
    world.patch(&stands, json!({"metadata": {"annotations": {"a": "b"}}})).await;
    world.delete(&gone).await;
    let now = live(world.live(&stands).await);
    let events = [
        of("MODIFIED", &now),
        of("MODIFIED", &now),
        of("ADDED", &late),
        of("MODIFIED", &stale),
        of("DELETED", &stale),
    ];

    let (proxy, client) = proxied(&world.broker).await;
    proxy.script().first(is_watch).before_forward().answer(HttpAnswer::ok(events.concat()));
    let (_, cache) = adapter(&client, quick());
    let _running = run(&cache);
    cache.track(&world.xrd);
    // A late event ends the first watch: no API server sends one, unless its store was restored.
    until("a second watch", || async { (count(&proxy, is_watch) == 2).then_some(()) }).await;
    until_current(&cache, &world, &stands).await;
    let warm = cache.warm(&world.xrd).unwrap();
    assert_eq!(warm.observe(&gone.xr_target()), CachedXr::Absent, "it rose from the dead");
    assert_eq!(count(&proxy, is_list), 2);
}

#[tokio::test]
async fn a_kind_that_is_deleted_and_made_anew_is_followed_anew() {
    let world = World::alone(&TestCluster::shared().await).await;
    let (cluster, cache) = adapter(&*world.broker, quick());
    let _running = run(&cache);
    let old = world.resource();
    old.start(&cluster).await;
    until_current(&cache, &world, &old).await;

    let definitions: Api<CustomResourceDefinition> = Api::all(world.admin.clone());
    let name = format!("machines.{}", world.group);
    definitions.delete(&name, &DeleteParams::default()).await.unwrap();
    until("the kind to be gone", || async {
        definitions.get_opt(&name).await.unwrap().is_none().then_some(())
    })
    .await;
    until("the kind to be cold", || async { cache.warm(&world.xrd).is_none().then_some(()) }).await;
    assert_eq!(observed(&cluster, &old).await.unwrap(), CachedXr::Absent);

    let document = xrd_document(&world.group);
    world.cluster.install_crd(crd::from_xrd(&document)).await;
    let new = world.resource();
    new.start(&cluster).await;
    until_current(&cache, &world, &new).await;
    let warm = cache.warm(&world.xrd).unwrap();
    assert_eq!(warm.observe(&old.xr_target()), CachedXr::Absent);
}

#[tokio::test]
async fn a_kind_is_dropped_on_request_and_when_nobody_asks() {
    let world = World::alone(&TestCluster::shared().await).await;
    let unused_after = Duration::from_millis(200);
    let (_, cache) = adapter(&*world.broker, quick().with_unused_after(unused_after));
    let _running = run(&cache);
    until_warm(&cache, &world).await;
    cache.untrack(&world.xrd);
    assert!(cache.warm(&world.xrd).is_none(), "it was dropped");
    until_warm(&cache, &world).await;
    // Asking is what keeps it, so it is asked more and more seldom.
    let mut pause = unused_after;
    while cache.warm(&world.xrd).is_some() {
        pause += unused_after;
        assert!(pause < 50 * unused_after, "it is never dropped");
        tokio::time::sleep(pause).await;
    }
}

#[tokio::test]
async fn hints_are_of_provider_configs_too_and_end_with_the_run() {
    let world = World::alone(&TestCluster::shared().await).await;
    world.install_neighbours().await;
    let (cluster, cache) = adapter(&*world.broker, quick());
    let mut running = run(&cache);
    cache.track_provider_configs(&format!("{}/v1beta1", world.group), "providerconfigs");
    let (mut hints, mut others) = (cache.hints(), cache.hints());
    // When the watch begins is not announced; a change after that gives a hint.
    let mut told = None;
    while told.is_none() {
        let resource = world.resource();
        let config = resource.provider_config();
        let request = resource.request(config, broker_render::Precondition::Absent);
        done(broker_ports::Cluster::apply(&*cluster, &request).await);
        let wait = tokio::time::timeout(Duration::from_millis(500), hints.next());
        told = wait.await.ok();
    }
    let told = told.flatten().unwrap();
    assert_eq!(others.next().await, Some(told), "everybody hears");

    running.shutdown().await;
    while hints.next().await.is_some() {}
    assert!(cache.warm(&world.xrd).is_none(), "nobody runs it");
}
