//! The watch cache on the real API server, with every disturbance of a watch.

use std::sync::Arc;
use std::time::Duration;

use broker_kube::KubeCluster;
use broker_kube::cache::{Cache, CacheOptions};
use broker_ports::{CachedXr, Cluster, Hints};
use broker_tests::documents::xrd;
use broker_tests::proxy::{HttpAnswer, Request};
use broker_tests::{HttpProxy, TestCluster, crd, until};
use futures::StreamExt;
use http::StatusCode;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::task::JoinSet;

use super::fixture::{Fixture, MACHINE, Subject, config_kind, spec};
use super::roles::{build, options};
use super::world::api;

/// Longer than any answer takes on a busy machine; only bounds a failure.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Short timeouts, so that no test has to wait long.
fn quick() -> CacheOptions {
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

async fn change(fixture: &Fixture, resource: &Subject, value: &str) {
    let note = json!({"metadata": {"annotations": {"a": value}}});
    fixture.patch("kubectl", &resource.reference(), note).await;
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

type Wanted = fn(&Request) -> bool;

fn count(proxy: &HttpProxy, wanted: Wanted) -> usize {
    proxy.script().seen().iter().filter(|request| wanted(request)).count()
}

async fn disturbed(disturb: impl FnOnce(&HttpProxy), cache: CacheOptions) -> Disturbed {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let (proxy, client) = fixture.broker.proxied().await;
    disturb(&proxy);
    let (cluster, cache) = build(client, options(TIMEOUT), cache);
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
    /// A change that the first watch misses and the second reports. Returns the number of lists and
    /// watches so far.
    async fn recover(&self) -> (usize, usize) {
        until("the first watch", || async { (count(&self.proxy, is_watch) > 0).then_some(()) })
            .await;
        let resource = self.fixture.machine();
        resource.start(&self.cluster).await;
        until_current(&self.cache, &self.fixture, &resource).await;
        change(&self.fixture, &resource, "b").await;
        until_current(&self.cache, &self.fixture, &resource).await;
        (count(&self.proxy, is_list), count(&self.proxy, is_watch))
    }
}

/// Whatever ends a watch, or a list before it: the cache starts with a new list. The server may
/// have come back with another store.
#[tokio::test]
async fn failed_watch_restarts_with_a_new_list() {
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
        ("cut at its first bookmark", list, HttpAnswer::servers().cut_after(60), (2, 1)),
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
async fn silent_watch_times_out() {
    let silence = quick().with_silence(Duration::from_secs(2));
    let timeout = quick().with_request_timeout(Duration::from_secs(3));
    for (why, answer, options) in [
        ("silent from its beginning", HttpAnswer::servers().stalled_after(0), silence),
        ("an answer that never begins", HttpAnswer::half_a_head(), timeout),
    ] {
        let disturb = |proxy: &HttpProxy| {
            proxy.script().first(is_watch).before_answer().answer(answer);
        };
        let (lists, watches) = disturbed(disturb, options).await.recover().await;
        assert!(lists >= 2 && watches >= 2, "{why}: {lists} lists, {watches} watches");
    }
}

/// A healthy watch may still omit an event: a periodic list finds it and sends a hint.
#[tokio::test]
async fn event_that_a_watch_omits_is_found_by_a_list() {
    let deaf = HttpAnswer::servers().stalled_after(0);
    let disturb = |proxy: &HttpProxy| proxy.script().first(is_watch).before_answer().answer(deaf);
    let options = quick().with_relist_after(Duration::from_secs(2));
    let disturbed = disturbed(disturb, options).await;
    let mut hints = disturbed.cache.hints();
    let proxy = &disturbed.proxy;
    until("the first watch", || async { (count(proxy, is_watch) > 0).then_some(()) }).await;
    let resource = disturbed.fixture.machine();
    resource.start(&disturbed.cluster).await;
    hint(&mut hints, &resource).await;
    until_current(&disturbed.cache, &disturbed.fixture, &resource).await;
    assert!(count(&disturbed.proxy, is_list) >= 2, "only a list can have found it");
}

/// A restored etcd returns to old versions and reuses later ones. The cache must not resume from
/// its last version.
#[tokio::test]
async fn restored_store_is_noticed_when_the_watch_is_established() {
    let dedicated = TestCluster::dedicated().await;
    let fixture = Fixture::alone(&dedicated).await;
    let (cluster, cache) = fixture.broker.adapter(quick());
    let _running = run(&cache);
    let (stays, lost) = (fixture.machine(), fixture.machine());
    stays.start(&cluster).await;
    dedicated.back_up().await;
    let stands = stays.reference();
    until("the kind to be served", || async {
        api(&fixture.admin, &stands).get(stands.name()).await.ok()
    })
    .await;

    lost.start(&cluster).await;
    for number in 0..50 {
        change(&fixture, &stays, &number.to_string()).await;
    }
    until_current(&cache, &fixture, &stays).await;
    until_current(&cache, &fixture, &lost).await;
    let mut hints = cache.hints();
    dedicated.restore_back_up().await;

    hint(&mut hints, &lost).await;
    until_current(&cache, &fixture, &stays).await;
    let warm = cache.warm(&fixture.xrd).unwrap();
    assert_eq!(
        warm.observe(&lost.xr_target()),
        CachedXr::Absent,
        "the restored store does not have it"
    );
    // Below the version that the cache had reached: new changes are followed.
    let new = fixture.machine();
    new.start(&cluster).await;
    hint(&mut hints, &new).await;
    until_current(&cache, &fixture, &new).await;
}

fn is_identity(request: &Request) -> bool {
    request.target.ends_with("/namespaces/kube-system")
}

/// A version of one cluster is meaningless on another: the cache needs a new list.
#[tokio::test]
async fn watch_does_not_resume_on_another_cluster() {
    let elsewhere = json!({"metadata": {"uid": "another-cluster", "resourceVersion": "1"}});
    let elsewhere = HttpAnswer::ok(elsewhere.to_string());
    let disturb = |proxy: &HttpProxy| {
        proxy.script().first(is_identity).before_forward().answer(elsewhere);
    };
    let disturbed = disturbed(disturb, quick()).await;
    until_warm(&disturbed.cache, &disturbed.fixture).await;
    let here = disturbed.fixture.port.identity().await.unwrap();
    assert_eq!(disturbed.cache.identity(), Some(here));
    assert_eq!(count(&disturbed.proxy, is_list), 2, "a list of another cluster is no answer");
}

/// The cluster's identity is cached while every watch continues, and read again when one restarts.
#[tokio::test]
async fn cluster_identity_is_cached_while_watches_continue() {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let (proxy, client) = fixture.broker.proxied().await;
    let (cluster, cache) = build(client, options(TIMEOUT), quick());
    assert_eq!(cache.identity(), None, "nothing is followed");
    let _running = run(&cache);
    until_warm(&cache, &fixture).await;
    let here = fixture.port.identity().await.unwrap();
    let asked = count(&proxy, is_identity);
    let known = cluster.identity().await.unwrap();
    assert_eq!((&known, count(&proxy, is_identity)), (&here, asked), "the server was not asked");

    // A cold kind may be of any cluster.
    let mut held = proxy.script().first(is_watch).before_forward().hold();
    cache.track_provider_configs(&config_kind().api_version, &config_kind().plural);
    held.reached().await;
    assert_eq!(cache.identity(), None);
    let asked = count(&proxy, is_identity);
    let known = cluster.identity().await.unwrap();
    assert_eq!((&known, count(&proxy, is_identity)), (&here, asked + 1), "it was asked");
    held.release();
    until("everything to be warm", || async { cache.identity() }).await;
}

#[tokio::test]
async fn recreated_kind_is_followed_again() {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let (cluster, cache) = fixture.broker.adapter(quick());
    let _running = run(&cache);
    let old = fixture.machine();
    old.start(&cluster).await;
    until_current(&cache, &fixture, &old).await;

    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.admin.clone());
    let name = format!("machines.{}", fixture.group);
    definitions.delete(&name, &DeleteParams::default()).await.unwrap();
    until("the kind to be gone", || async {
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
    let (_, cache) = fixture.broker.adapter(quick().with_unused_after(unused_after));
    let _running = run(&cache);
    until_warm(&cache, &fixture).await;
    cache.untrack(&fixture.xrd);
    assert!(cache.warm(&fixture.xrd).is_none(), "it was dropped");
    until_warm(&cache, &fixture).await;
    // Every read keeps the kind in use, so the test reads less and less often.
    let mut pause = unused_after;
    while cache.warm(&fixture.xrd).is_some() {
        pause += unused_after;
        assert!(pause < 50 * unused_after, "it is never dropped");
        tokio::time::sleep(pause).await;
    }
}
