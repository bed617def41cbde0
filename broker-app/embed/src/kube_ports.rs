//! The Kubernetes adapter behind the cluster port, and its watch cache.

use std::sync::Arc;

use broker_app::{BrokerConfig, ConfigError, one_line};
use broker_kube::cache::{Cache, CacheOptions};
use broker_kube::{KubeCluster, KubeOptions, client_config};
use kube::{Client, Config};

/// Creates the cluster port and its watch cache as [`kubernetes_with`](crate::BrokerBuilder::kubernetes_with) does, for
/// a caller that reads or runs the cache itself.
///
/// # Errors
///
/// [`ConfigError`] for the first invalid cache option.
pub fn kube_cluster(
    client: Client,
    options: CacheOptions,
    config: &BrokerConfig,
) -> Result<(KubeCluster, Arc<Cache>), ConfigError> {
    options.validate()?;
    let cache = Arc::new(Cache::new(client.clone(), keep_between_sweeps(options, config)));
    let options = KubeOptions::new(config.deadlines.cluster_read, config.deadlines.cluster_write);
    Ok((KubeCluster::new(client, options, Arc::clone(&cache)), cache))
}

/// Creates a client that sends each request once.
pub(crate) fn kube_client(config: Config, user_agent: &str) -> Result<Client, ConfigError> {
    let config = client_config(config, user_agent).map_err(|_| {
        let allowed = "give visible ASCII characters and spaces";
        ConfigError::new("user_agent", format_args!("{user_agent:?}"), allowed)
    })?;
    let unusable = |error| ConfigError::new("kubernetes_config", "unusable", one_line(&error));
    Client::try_from(config).map_err(unusable)
}

/// Makes the cache keep an unused kind for at least three sweep intervals.
fn keep_between_sweeps(options: CacheOptions, config: &BrokerConfig) -> CacheOptions {
    let unused_after = options.unused_after.max(config.sweep_interval.saturating_mul(3));
    options.with_unused_after(unused_after)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn cache_keeps_a_kind_from_one_sweep_to_the_next() {
        const HOUR: Duration = Duration::from_hours(1);
        for (unused_after, sweep_interval, expected) in [
            (HOUR, Duration::from_secs(30), HOUR),
            (HOUR, HOUR, 3 * HOUR),
            (Duration::from_secs(1), Duration::from_secs(30), Duration::from_secs(90)),
        ] {
            let mut config = BrokerConfig::default();
            config.sweep_interval = sweep_interval;
            let options = CacheOptions::default().with_unused_after(unused_after);
            assert_eq!(keep_between_sweeps(options, &config).unused_after, expected);
        }
    }
}
