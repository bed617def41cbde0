//! [`KubeCluster`]: the cluster port on one API server.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::ClusterId;
use broker_ports::{
    Applied, ApplyRequest, CachedXr, Cluster, DeleteRequest, Deleted, DryRun, Hints, Inspection,
    OwnedPage, OwnedQuery, PortError, Reading, Target, XrTarget,
};
use kube::Client;
use tracing::instrument;

use crate::cache::Cache;
use crate::call::{KubeOptions, Server};
use crate::objects::ObjectClient;
use crate::{apply, delete, inspect, observe, owned, read};

/// A management cluster behind its API server.
///
/// Reads, applies and deletions always go to the API server. The cache serves the sweep's calls while it is warm:
/// [`Cluster::observe_many`], [`Cluster::list_owned`] and [`Cluster::identity`]. It also sends the hints. The cache
/// runs only inside [`Cluster::watch`]; without that call, every sweep lists and no hint arrives.
///
/// ```
/// # fn embed(client: kube::Client) -> broker_kube::KubeCluster {
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use broker_kube::cache::{Cache, CacheOptions};
/// use broker_kube::{KubeCluster, KubeOptions};
///
/// let cache = Arc::new(Cache::new(client.clone(), CacheOptions::default()));
/// let options = KubeOptions::new(Duration::from_secs(10), Duration::from_secs(5));
/// KubeCluster::new(client, options, cache)
/// # }
/// ```
pub struct KubeCluster {
    client: ObjectClient,
    cache: Arc<Cache>,
}

impl KubeCluster {
    /// A cluster over a client that sends each request once: see [`client_config`](crate::client_config).
    pub fn new(client: Client, options: KubeOptions, cache: Arc<Cache>) -> Self {
        Self { client: ObjectClient::new(Server::new(client, options)), cache }
    }

    /// Tracks the ProviderConfig kind of a target after a read, when discovery knows the kind. No
    /// ProviderConfig need exist yet: the first one then sends a hint, too.
    async fn track_provider_config_kind(&self, target: &Target) {
        let Some(config) = &target.provider_config else { return };
        let kind = (config.api_version(), config.kind());
        let located = self.client.kinds().locate(self.client.server(), kind).await;
        if let Ok(Some(served_kind)) = located {
            self.cache.track_provider_configs(served_kind.api_version(), served_kind.plural());
        }
    }
}

/// Hides the client in `Debug` output.
impl fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.client.server().options();
        f.debug_struct("KubeCluster").field("options", options).finish_non_exhaustive()
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    #[instrument(name = "kube.identity", level = "debug", skip_all)]
    async fn identity(&self) -> Result<ClusterId, PortError> {
        match self.cache.identity() {
            Some(known) => Ok(known),
            None => read::identity(&self.client).await,
        }
    }

    #[instrument(name = "kube.xr.observe_many", level = "debug", skip_all, fields(targets = targets.len()))]
    async fn observe_many(
        &self,
        targets: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
        observe::observe_many(&self.client, &self.cache, targets).await
    }

    #[instrument(name = "kube.read", level = "debug", skip_all, fields(resource = %target.xr.resource))]
    async fn read(&self, target: &Target) -> Result<Reading, PortError> {
        self.cache.track(&target.xr.xrd);
        let reading = read::read(&self.client, target).await?;
        self.track_provider_config_kind(target).await;
        Ok(reading)
    }

    #[instrument(name = "kube.inspect", level = "debug", skip_all, fields(resource = %target.xr.resource))]
    async fn inspect(&self, target: &Target) -> Result<Inspection, PortError> {
        inspect::inspect(&self.client, target).await
    }

    #[instrument(name = "kube.inspect_many", level = "debug", skip_all, fields(targets = targets.len()))]
    async fn inspect_many(&self, targets: &[Target]) -> Vec<Result<Inspection, PortError>> {
        inspect::inspect_many(&self.client, targets).await
    }

    #[instrument(name = "kube.apply", level = "debug", skip_all, fields(object = %request.target()))]
    async fn apply(&self, request: &ApplyRequest) -> Result<Applied, PortError> {
        apply::apply(&self.client, request).await
    }

    #[instrument(name = "kube.dry_run", level = "debug", skip_all, fields(object = %request.target()))]
    async fn dry_run(&self, request: &ApplyRequest) -> Result<DryRun, PortError> {
        apply::dry_run(&self.client, request).await
    }

    #[instrument(name = "kube.delete", level = "debug", skip_all, fields(object = %request.target))]
    async fn delete(&self, request: &DeleteRequest<'_>) -> Result<Deleted, PortError> {
        delete::delete(&self.client, request).await
    }

    #[instrument(name = "kube.list_owned", level = "debug", skip_all)]
    async fn list_owned(&self, query: &OwnedQuery) -> Result<OwnedPage, PortError> {
        owned::list_owned(&self.client, &self.cache, query).await
    }

    async fn hints(&self) -> Result<Hints, PortError> {
        Ok(self.cache.hints())
    }

    async fn watch(&self) {
        self.cache.run(std::future::pending()).await;
    }
}
