//! The management cluster: from kubeconfig files, or from what the machine offers, to the cluster port.

use std::sync::Arc;

use broker_kube::cache::{Cache, CacheOptions};
use broker_kube::{KubeCluster, KubeOptions, client_config};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::DEADLINES;
use crate::failure::Failure;
use crate::settings::Settings;

/// Who sends, for the API server's audit.
const USER_AGENT: &str = concat!("provisioning-broker/", env!("CARGO_PKG_VERSION"));

/// The cluster, and the cache that has to run beside it. Nothing is sent yet.
pub(super) async fn connect(
    settings: &Settings,
) -> Result<(Arc<KubeCluster>, Arc<Cache>), Failure> {
    let config = client_config(config(settings).await?, USER_AGENT).map_err(unusable)?;
    let client = Client::try_from(config).map_err(unusable)?;
    let cache = Arc::new(Cache::new(client.clone(), CacheOptions::default()));
    // Each call of the port may need several requests; the application's own deadline bounds them together.
    let options = KubeOptions::new(DEADLINES.cluster_read, DEADLINES.cluster_write);
    Ok((Arc::new(KubeCluster::new(client, options, Arc::clone(&cache))), cache))
}

async fn config(settings: &Settings) -> Result<Config, Failure> {
    let mut merged: Option<Kubeconfig> = None;
    for file in &settings.kubeconfig {
        let next = Kubeconfig::read_from(file).map_err(unusable)?;
        merged = Some(match merged {
            None => next,
            Some(first) => first.merge(next).map_err(unusable)?,
        });
    }
    match merged {
        Some(kubeconfig) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)
        }
        None => Config::infer().await.map_err(unusable),
    }
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Compose { what: "Kubernetes", source: error.into() }
}
