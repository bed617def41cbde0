//! The broker's identity with the roles of a growing catalog, and the adapters that use it.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker_kube::cache::{Cache, CacheOptions};
use broker_kube::{KubeCluster, KubeOptions, client_config, rbac};
use broker_render::ProviderProfiles;
use broker_render::catalog::Blueprint;
use broker_tests::rights::BrokerIdentity;
use broker_tests::{HttpProxy, TestCluster};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::world::fresh_id;

/// Small pages, so that a list has several.
const PAGE_SIZE: u32 = 5;

/// Longer than the API server takes on a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// The broker's identity with the roles of a catalog, to which a test can add blueprints.
pub(crate) struct CatalogIdentity {
    identity: BrokerIdentity,
    blueprints: Mutex<Vec<Blueprint>>,
}

impl CatalogIdentity {
    pub(super) async fn new(cluster: &TestCluster) -> Self {
        let identity = BrokerIdentity::new(cluster, unique_user()).await;
        Self { identity, blueprints: Mutex::default() }
    }

    /// An identity without any right, whose later write rights apply to every namespace.
    pub(super) async fn with_cluster_wide_writer(cluster: &TestCluster) -> Self {
        let identity = BrokerIdentity::with_cluster_wide_writer(cluster, unique_user()).await;
        Self { identity, blueprints: Mutex::default() }
    }

    pub(super) async fn add_blueprints(&self, blueprints: impl IntoIterator<Item = Blueprint>) {
        let roles = {
            let mut known = self.blueprints.lock().unwrap();
            let before = known.len();
            for blueprint in blueprints {
                if known.iter().all(|known| known.slug != blueprint.slug) {
                    known.push(blueprint);
                }
            }
            if known.len() == before {
                return;
            }
            rbac(&*known, &ProviderProfiles::default())
        };
        self.identity.grant(&roles, &self.identity.user).await;
    }

    /// An adapter with the rights of this identity, and its cache, not running yet.
    pub(super) fn adapter(&self, cache: CacheOptions) -> (Arc<KubeCluster>, Arc<Cache>) {
        adapter_over(self.client.clone(), options(DEADLINE), cache)
    }

    /// A proxy that forwards with this identity, and a client of it, built as a composition root
    /// does.
    pub(super) async fn proxied(&self) -> (HttpProxy, Client) {
        let proxy = HttpProxy::start(self.client.clone()).await;
        let kubeconfig = Kubeconfig::from_yaml(&proxy.kubeconfig()).unwrap();
        let read = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &read).await.unwrap();
        let config = client_config(config, "broker-tests").unwrap();
        (proxy, Client::try_from(config).unwrap())
    }
}

impl Deref for CatalogIdentity {
    type Target = BrokerIdentity;

    fn deref(&self) -> &BrokerIdentity {
        &self.identity
    }
}

fn unique_user() -> String {
    format!("broker-{}", fresh_id())
}

pub(super) fn options(deadline: Duration) -> KubeOptions {
    KubeOptions::new(deadline, deadline).with_page_size(PAGE_SIZE.try_into().unwrap())
}

pub(super) fn adapter_over(
    client: Client,
    options: KubeOptions,
    cache: CacheOptions,
) -> (Arc<KubeCluster>, Arc<Cache>) {
    let cache = Arc::new(Cache::new(client.clone(), cache));
    (Arc::new(KubeCluster::new(client, options, Arc::clone(&cache))), cache)
}

pub(super) fn uncached(client: Client) -> KubeCluster {
    let cache = Arc::new(Cache::new(client.clone(), CacheOptions::default()));
    KubeCluster::new(client, options(DEADLINE), cache)
}
