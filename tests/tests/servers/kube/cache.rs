//! The watch cache on the real API server, with every disturbance of a watch.

use std::sync::Arc;
use std::time::Duration;

use broker_kube::KubeCluster;
use broker_kube::cache::{Cache, CacheOptions};
use broker_ports::{CachedXr, Cluster, Hints};
use broker_tests::documents::xrd;
use broker_tests::proxy::{HttpResponse, Request};
use broker_tests::{HttpProxy, TestCluster, crd, until};
use futures::StreamExt;
use http::StatusCode;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::task::JoinSet;

use super::fixture::{Fixture, MACHINE, Subject, config_kind, spec};
use super::roles::{adapter_over, options};
use super::world::api;

/// Longer than any response takes on a busy machine: only a failed test reaches it.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Short timeouts, so that no test has to wait long.
fn short_waits() -> CacheOptions {
    CacheOptions::default().with_waits(Duration::from_millis(10), Duration::from_millis(100))
}

/// Runs a cache until the returned value is dropped.
pub(super) fn run(cache: &Arc<Cache>) -> JoinSet<()> {
    let cache = Arc::clone(cache);
    let mut running = JoinSet::new();
    running.spawn(async move { cache.run(std::future::pending()).await });
    running
}

pub(super) async fn until_warm(cache: &Cache, fixture: &Fixture) {
    until("the kind to be warm", || async { cache.warm(&fixture.xrd).map(drop) }).await;
}

pub(super) async fn until_cold(cache: &Cache, fixture: &Fixture) {
    until("the kind to be cold", || async { cache.warm(&fixture.xrd).is_none().then_some(()) })
        .await;
}

/// Waits until the cache itself, not a fallback list, has the current version of a resource.
async fn until_current(cache: &Cache, fixture: &Fixture, resource: &Subject) {
    let live = fixture.object(&resource.reference()).await;
    let live = live.map(|live| live["metadata"]["resourceVersion"].clone());
    until("the cache to be current", || async {
        let seen = match cache.warm(&fixture.xrd)?.observe(&resource.xr_target()) {
            CachedXr::Present { version, .. } => Some(json!(version.resource_version)),
            CachedXr::Absent => None,
        };
        (seen == live).then_some(())
    })
    .await;
}

async fn annotate(fixture: &Fixture, resource: &Subject, value: &str) {
    let note = json!({"metadata": {"annotations": {"a": value}}});
    fixture.patch("kubectl", &resource.reference(), note).await;
}

async fn wait_for_hint(hints: &mut Hints, resource: &Subject) {
    while hints.next().await.expect("the hints ended") != resource.identity.resource {}
}

fn is_watch(request: &Request) -> bool {
    request.target.contains("watch=true")
}

fn is_list(request: &Request) -> bool {
    request.verb == "GET" && request.target.contains("limit=") && !is_watch(request)
}

type RequestFilter = fn(&Request) -> bool;

fn count(proxy: &HttpProxy, filter: RequestFilter) -> usize {
    proxy.script().requests().iter().filter(|request| filter(request)).count()
}

async fn start_disturbed(add_rule: impl FnOnce(&HttpProxy), cache: CacheOptions) -> Disturbed {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let (proxy, client) = fixture.broker.proxied().await;
    add_rule(&proxy);
    let (cluster, cache) = adapter_over(client, options(TIMEOUT), cache);
    let running = run(&cache);
    cache.track(&fixture.xrd);
    Disturbed { fixture, proxy, cluster, cache, _running: running }
}

struct Disturbed {
    fixture: Fixture,
    proxy: HttpProxy,
    cluster: Arc<KubeCluster>,
    cache: Arc<Cache>,
    _running: JoinSet<()>,
}

impl Disturbed {
    /// Makes a change that the first watch misses, and waits until the cache has it. Returns the number of
    /// lists and watches so far.
    async fn recover(&self) -> (usize, usize) {
        until("the first watch", || async { (count(&self.proxy, is_watch) > 0).then_some(()) })
            .await;
        let resource = self.fixture.machine();
        resource.start(&self.cluster).await;
        until_current(&self.cache, &self.fixture, &resource).await;
        annotate(&self.fixture, &resource, "b").await;
        until_current(&self.cache, &self.fixture, &resource).await;
        (count(&self.proxy, is_list), count(&self.proxy, is_watch))
    }
}

/// After a failed watch, or a failed list before it, the cache starts with a new list: the server may have
/// restarted with another store.
#[tokio::test]
async fn failed_watch_restarts_with_a_new_list() {
    let line = json!({"type": "ERROR", "object": {
        "kind": "Status", "code": 410, "reason": "Expired", "message": "too old",
    }});
    let expired = HttpResponse::failure(StatusCode::GONE, "Expired", "too old resource version");
    let busy = HttpResponse::failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "slow down");
    let (watch, list): (RequestFilter, RequestFilter) = (is_watch, is_list);
    let rows = [
        ("refused as expired", watch, expired, (2, 2)),
        ("expires on its way", watch, HttpResponse::ok(format!("{line}\n")), (2, 2)),
        ("cut within a line", watch, HttpResponse::from_server().cut_after(100), (2, 2)),
        ("cut at its first bookmark", list, HttpResponse::from_server().cut_after(60), (2, 1)),
        ("throttled", list, busy.with_header("Retry-After", "1"), (2, 1)),
    ];
    for (why, filter, response, lists_and_watches) in rows {
        let add_rule = |proxy: &HttpProxy| {
            proxy.script().first(filter).before_response().respond(response);
        };
        let found = start_disturbed(add_rule, short_waits()).await.recover().await;
        assert_eq!(found, lists_and_watches, "{why}");
    }
}

#[tokio::test]
async fn silent_watch_times_out() {
    let silence = short_waits().with_silence(Duration::from_secs(2));
    let timeout = short_waits().with_request_timeout(Duration::from_secs(3));
    for (why, response, options) in [
        ("silent from its beginning", HttpResponse::from_server().stalled_after(0), silence),
        ("a response that never begins", HttpResponse::partial_head(), timeout),
    ] {
        let add_rule = |proxy: &HttpProxy| {
            proxy.script().first(is_watch).before_response().respond(response);
        };
        let (lists, watches) = start_disturbed(add_rule, options).await.recover().await;
        assert!(lists >= 2 && watches >= 2, "{why}: {lists} lists, {watches} watches");
    }
}

/// A healthy watch may still omit an event: a periodic list finds it and sends a hint.
#[tokio::test]
async fn event_that_a_watch_omits_is_found_by_a_list() {
    let deaf = HttpResponse::from_server().stalled_after(0);
    let add_rule =
        |proxy: &HttpProxy| proxy.script().first(is_watch).before_response().respond(deaf);
    let options = short_waits().with_relist_after(Duration::from_secs(2));
    let disturbed = start_disturbed(add_rule, options).await;
    let mut hints = disturbed.cache.hints();
    let proxy = &disturbed.proxy;
    until("the first watch", || async { (count(proxy, is_watch) > 0).then_some(()) }).await;
    let resource = disturbed.fixture.machine();
    resource.start(&disturbed.cluster).await;
    wait_for_hint(&mut hints, &resource).await;
    until_current(&disturbed.cache, &disturbed.fixture, &resource).await;
    assert!(count(&disturbed.proxy, is_list) >= 2, "only a list can have found it");
}

/// A restored etcd returns to old versions and reuses later ones. The cache must not resume from
/// its last version.
#[tokio::test]
async fn restored_store_is_noticed_when_the_watch_is_established() {
    let dedicated = TestCluster::dedicated().await;
    let fixture = Fixture::alone(&dedicated).await;
    let (cluster, cache) = fixture.broker.adapter(short_waits());
    let _running = run(&cache);
    let (kept, lost) = (fixture.machine(), fixture.machine());
    kept.start(&cluster).await;
    dedicated.back_up().await;
    let target = kept.reference();
    until("the kind to be served", || async {
        api(&fixture.admin, &target).get(target.name()).await.ok()
    })
    .await;

    lost.start(&cluster).await;
    for number in 0..50 {
        annotate(&fixture, &kept, &number.to_string()).await;
    }
    until_current(&cache, &fixture, &kept).await;
    until_current(&cache, &fixture, &lost).await;
    let mut hints = cache.hints();
    dedicated.restore_back_up().await;

    wait_for_hint(&mut hints, &lost).await;
    until_current(&cache, &fixture, &kept).await;
    let warm = cache.warm(&fixture.xrd).unwrap();
    assert_eq!(warm.observe(&lost.xr_target()), CachedXr::Absent, "it was not restored");
    // The cache also follows changes below the version that it had reached.
    let new = fixture.machine();
    new.start(&cluster).await;
    wait_for_hint(&mut hints, &new).await;
    until_current(&cache, &fixture, &new).await;
}

fn is_identity(request: &Request) -> bool {
    request.target.ends_with("/namespaces/kube-system")
}

/// A version of one cluster is meaningless on another: the cache needs a new list.
#[tokio::test]
async fn watch_does_not_resume_on_another_cluster() {
    let elsewhere = json!({"metadata": {"uid": "another-cluster", "resourceVersion": "1"}});
    let elsewhere = HttpResponse::ok(elsewhere.to_string());
    let add_rule = |proxy: &HttpProxy| {
        proxy.script().first(is_identity).before_forward().respond(elsewhere);
    };
    let disturbed = start_disturbed(add_rule, short_waits()).await;
    until_warm(&disturbed.cache, &disturbed.fixture).await;
    let here = disturbed.fixture.port.identity().await.unwrap();
    assert_eq!(disturbed.cache.identity(), Some(here));
    assert_eq!(count(&disturbed.proxy, is_list), 2, "the list of another cluster is discarded");
}

/// The cluster's identity is cached while every watch continues, and read again when one restarts.
#[tokio::test]
async fn cluster_identity_is_cached_while_watches_continue() {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let (proxy, client) = fixture.broker.proxied().await;
    let (cluster, cache) = adapter_over(client, options(TIMEOUT), short_waits());
    assert_eq!(cache.identity(), None, "no kind is tracked");
    let _running = run(&cache);
    until_warm(&cache, &fixture).await;
    let here = fixture.port.identity().await.unwrap();
    let reads = count(&proxy, is_identity);
    let known = cluster.identity().await.unwrap();
    assert_eq!((&known, count(&proxy, is_identity)), (&here, reads), "the cached identity is used");

    // A cold kind may be of any cluster.
    let mut held = proxy.script().first(is_watch).before_forward().hold();
    cache.track_provider_configs(&config_kind().api_version, &config_kind().plural);
    held.wait_until_held().await;
    assert_eq!(cache.identity(), None);
    let reads = count(&proxy, is_identity);
    let known = cluster.identity().await.unwrap();
    assert_eq!((&known, count(&proxy, is_identity)), (&here, reads + 1), "it is read again");
    held.release();
    until("every kind to be warm", || async { cache.identity() }).await;
}

#[tokio::test]
async fn recreated_kind_is_followed_again() {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let (cluster, cache) = fixture.broker.adapter(short_waits());
    let _running = run(&cache);
    let old = fixture.machine();
    old.start(&cluster).await;
    until_current(&cache, &fixture, &old).await;

    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.admin.clone());
    let name = format!("machines.{}", fixture.group);
    definitions.delete(&name, &DeleteParams::default()).await.unwrap();
    until("the kind to be deleted", || async {
        definitions.get_opt(&name).await.unwrap().is_none().then_some(())
    })
    .await;
    until_cold(&cache, &fixture).await;
    let seen = cluster.observe_many(&[old.xr_target()]).await.unwrap().remove(0);
    assert_eq!(seen.unwrap(), CachedXr::Absent);

    let document = xrd(&fixture.group, MACHINE, &["v1"], &spec(&json!({"type": "string"})));
    fixture.cluster.install_crd(crd::from_xrd(&document)).await;
    let new = fixture.machine();
    new.start(&cluster).await;
    until_current(&cache, &fixture, &new).await;
    let warm = cache.warm(&fixture.xrd).unwrap();
    assert_eq!(warm.observe(&old.xr_target()), CachedXr::Absent);
}

#[tokio::test]
async fn kind_is_dropped_on_request_and_when_unused() {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let unused_after = Duration::from_millis(200);
    let (_, cache) = fixture.broker.adapter(short_waits().with_unused_after(unused_after));
    let _running = run(&cache);
    until_warm(&cache, &fixture).await;
    cache.untrack(&fixture.xrd);
    assert!(cache.warm(&fixture.xrd).is_none(), "the kind was dropped");
    until_warm(&cache, &fixture).await;
    // A read keeps the kind in use, so the pauses between reads grow.
    let mut pause = unused_after;
    while cache.warm(&fixture.xrd).is_some() {
        pause += unused_after;
        assert!(pause < 50 * unused_after, "the unused kind is never dropped");
        tokio::time::sleep(pause).await;
    }
}
