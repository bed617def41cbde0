//! Builds every adapter under test. An adapter takes an [`AdapterClient`], and no such client has the rights of the
//! cluster's administrator.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use broker_kube::cache::{Cache, CacheOptions};
use broker_kube::{KubeCluster, KubeOptions, client_config};
use broker_tests::HttpProxy;
use broker_tests::rights::BrokerIdentity;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Small pages, so that a list has several.
const PAGE_SIZE: u32 = 5;

/// Longer than the API server takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// Longer than any answer takes on a busy machine; only bounds a failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// The client of an adapter under test: a broker identity, directly or through a proxy.
#[derive(Clone)]
pub(crate) struct AdapterClient(Client);

impl AdapterClient {
    /// A client as a composition root makes it. The kubeconfigs that tests can get name no administrator.
    pub(crate) async fn from_kubeconfig(kubeconfig: &str) -> Self {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Self(Client::try_from(client_config(config, "broker-tests").unwrap()).unwrap())
    }
}

impl From<&Self> for AdapterClient {
    fn from(client: &Self) -> Self {
        client.clone()
    }
}

impl From<&BrokerIdentity> for AdapterClient {
    fn from(broker: &BrokerIdentity) -> Self {
        Self(broker.client.clone())
    }
}

/// A proxy that forwards as a broker, and its client.
pub(crate) async fn proxied(broker: &BrokerIdentity) -> (HttpProxy, AdapterClient) {
    let proxy = HttpProxy::to(broker.client.clone()).await;
    let client = AdapterClient(proxy.client().await);
    (proxy, client)
}

/// An adapter and its cache, which does not run yet.
pub(crate) fn build(
    client: impl Into<AdapterClient>,
    options: KubeOptions,
    cache: CacheOptions,
) -> (KubeCluster, Arc<Cache>) {
    let AdapterClient(client) = client.into();
    let cache = Arc::new(Cache::new(client.clone(), cache));
    (KubeCluster::new(client, options, Arc::clone(&cache)), cache)
}

/// The options of the adapter in the contract suite and in the tests of single facts.
pub(crate) fn options() -> KubeOptions {
    KubeOptions::new(DEADLINE, DEADLINE).with_page_size(PAGE_SIZE.try_into().unwrap())
}

/// An adapter whose cache never runs.
pub(crate) fn uncached(client: impl Into<AdapterClient>) -> KubeCluster {
    build(client, options(), CacheOptions::default()).0
}

/// An adapter whose deadlines never pass, and its cache.
pub(crate) fn adapter(
    client: impl Into<AdapterClient>,
    options: CacheOptions,
) -> (Arc<KubeCluster>, Arc<Cache>) {
    adapter_within(client, options, PATIENCE)
}

/// An adapter with one deadline for every request.
pub(crate) fn adapter_within(
    client: impl Into<AdapterClient>,
    options: CacheOptions,
    deadline: Duration,
) -> (Arc<KubeCluster>, Arc<Cache>) {
    let (cluster, cache) = build(client, KubeOptions::new(deadline, deadline), options);
    (Arc::new(cluster), cache)
}

/// The type of the client is a rule only for callers of this module, so no other file builds an adapter.
#[test]
fn adapters_are_built_by_this_module_only() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/kube");
    let (mut directories, mut builders) = (vec![here.clone()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let builds = ["KubeCluster::new(", "Cache::new(", "HttpProxy::to(", "identity_in("];
            if builds.iter().any(|build| text.contains(build)) {
                builders.push(path.strip_prefix(&here).unwrap().to_owned());
            }
        }
    }
    assert_eq!(builders, [Path::new("adapter.rs")]);
}
