//! Faults of the real servers: strangers, expired credentials, and processes that die.

use std::time::Duration;

use broker_kube::cache::CacheOptions;
use broker_kube::{Cause, KubeCluster};
use broker_ports::{CachedXr, Cluster, FailureClass, PortError, XrReading};
use broker_render::Precondition;
use broker_tests::{TestCluster, until};
use serde_json::{Value, json};

use super::super::adapter::{AdapterClient, adapter, adapter_within};
use super::super::cache::world::{World, run, version_of};
use super::super::fixture::{Subject, done};
use super::transient;

/// Everything that a cluster can be asked for about a resource that stands fails as told, and the resource
/// goes on standing.
async fn knows_nothing(tampered: &Value, cause: Cause) {
    let cluster = TestCluster::shared().await;
    let world = World::of(&cluster, "faults.example.org").await;
    let (direct, _) = adapter(&*world.broker, CacheOptions::default());
    let (stands, missing) = (world.resource(), world.resource());
    let version = stands.start(&direct).await;
    // Not a broker, because the lack of an identity is the case.
    let stranger = AdapterClient::from_kubeconfig(&tampered.to_string()).await;
    let (stranger, _) = adapter(&stranger, CacheOptions::default());
    let told = transient(cause);
    told.check(&stranger.identity().await.unwrap_err());
    for resource in [&stands, &missing] {
        told.check(&stranger.read(&resource.target()).await.unwrap_err());
        let shell = resource.request(resource.shell(), Precondition::Absent);
        told.check(&stranger.apply(&shell).await.unwrap_err());
        let seen = stranger.observe_many(&[resource.xr_target()]).await.unwrap().remove(0);
        told.check(&seen.unwrap_err());
    }
    let live = world.live(&stands).await.unwrap();
    assert_eq!(live.metadata.resource_version, Some(version.resource_version));
    assert!(world.live(&missing).await.is_none());
}

#[tokio::test]
async fn a_server_that_a_wrong_authority_vouches_for_is_not_talked_to() {
    let cluster = TestCluster::shared().await;
    let mut kubeconfig: Value = serde_json::from_str(&cluster.kubeconfig("stranger")).unwrap();
    // A certificate, but nobody's authority.
    let other = kubeconfig["users"][0]["user"]["client-certificate-data"].clone();
    kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] = other;
    knows_nothing(&kubeconfig, Cause::Unreachable).await;
}

#[tokio::test]
async fn a_token_that_was_rotated_away_proves_nothing() {
    let cluster = TestCluster::shared().await;
    let mut kubeconfig: Value = serde_json::from_str(&cluster.kubeconfig("stranger")).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": "the-token-of-yesterday"});
    knows_nothing(&kubeconfig, Cause::Unauthenticated).await;
}

async fn is_never_absence(cluster: &KubeCluster, resource: &Subject) {
    let error = cluster.read(&resource.target()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Transient, "{error:?}");
}

async fn fails(cluster: &KubeCluster, resource: &Subject) -> PortError {
    let shell = resource.request(resource.shell(), Precondition::Absent);
    cluster.apply(&shell).await.unwrap_err()
}

/// Waits until the adapter gets through again, and finds a resource as it was.
async fn until_back(cluster: &KubeCluster, resource: &Subject) -> XrReading {
    until("the API server to be back", || async {
        cluster.read(&resource.target()).await.ok().map(|reading| reading.xr)
    })
    .await
}

#[tokio::test]
async fn a_control_plane_that_dies_in_parts_loses_and_doubles_nothing() {
    let servers = TestCluster::dedicated().await;
    let world = World::alone(&servers).await;
    let waits = (Duration::from_millis(50), Duration::from_millis(500));
    // A kind is cold because its watch broke, long before silence would make it so.
    let options =
        CacheOptions::default().with_waits(waits.0, waits.1).with_silence(Duration::from_hours(1));
    let (cluster, cache) = adapter_within(&*world.broker, options, Duration::from_secs(10));
    let _running = run(&cache);
    let (stands, wanted) = (world.resource(), world.resource());
    let version = stands.start(&cluster).await;
    let until_warm = || until("the kind to be warm", || async { cache.warm(&world.xrd).map(drop) });
    let until_cold = || {
        until("the kind to be cold", || async { cache.warm(&world.xrd).is_none().then_some(()) })
    };
    until_warm().await;

    servers.api_server().kill().await;
    until_cold().await;
    is_never_absence(&cluster, &stands).await;
    let error = fails(&cluster, &wanted).await;
    assert_eq!(error.class(), FailureClass::Transient, "{error:?}");
    servers.api_server().restart().await;
    assert!(matches!(until_back(&cluster, &wanted).await, XrReading::Absent));
    until_warm().await;

    servers.etcd().stop().await;
    is_never_absence(&cluster, &stands).await;
    let error = fails(&cluster, &wanted).await;
    assert_ne!(error.class(), FailureClass::Rejected, "{error:?}");
    servers.etcd().restart().await;
    assert!(matches!(until_back(&cluster, &wanted).await, XrReading::Absent));
    until("an apply to get through", || async {
        let shell = wanted.request(wanted.shell(), Precondition::Absent);
        cluster.apply(&shell).await.ok().map(|applied| done(Ok(applied)))
    })
    .await;
    let XrReading::Present(live) = until_back(&cluster, &stands).await else {
        panic!("it is lost")
    };
    assert_eq!(live.object.version(), &version);
    until_warm().await;
}

/// An API server that starts knows of nothing older than its start, so that a watch which was broken off
/// before is answered 410 as it is after a compaction.
#[tokio::test]
async fn a_server_that_has_forgotten_the_watched_version_is_listed_anew() {
    let servers = TestCluster::dedicated().await;
    let world = World::alone(&servers).await;
    let (_, cache) = adapter(&*world.broker, CacheOptions::default());
    let (direct, _) = adapter(&*world.broker, CacheOptions::default());
    let (goes, stays) = (world.resource(), world.resource());
    goes.start(&direct).await;
    let until_warm = || until("the kind to be warm", || async { cache.warm(&world.xrd) });
    let running = run(&cache);
    let seen = until_warm().await.observe(&goes.xr_target());
    assert!(matches!(seen, CachedXr::Seen { .. }));

    drop(running);
    until("the kind to be cold", || async { cache.warm(&world.xrd).is_none().then_some(()) }).await;
    world.delete(&goes).await;
    let version = stays.start(&direct).await;
    servers.api_server().restart().await;
    let log = world.cluster.audit_log();
    let mark = log.mark();
    let _running = run(&cache);
    let warm = until("the cache to be current", || async {
        let warm = cache.warm(&world.xrd)?;
        (version_of(&warm.observe(&stays.xr_target())) == Some(&version)).then_some(warm)
    })
    .await;
    assert_eq!(warm.observe(&goes.xr_target()), CachedXr::Absent, "it went while nobody watched");
    let requests = log.since(mark, &world.broker.user).await;
    let mut verbs: Vec<_> = requests.iter().map(|request| request.verb.as_str()).collect();
    // Before each of them the cluster is asked who it is, and a server that has just started may not be able to
    // watch yet.
    verbs.retain(|verb| *verb != "get");
    verbs.dedup();
    assert_eq!(verbs, ["watch", "list", "watch"]);
}
