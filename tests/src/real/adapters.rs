//! The shipped adapters over Postgres and Kubernetes, as `broker-embed` wires them.

use std::sync::Arc;
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_embed::{Broker, Parts, kube_cluster};
use broker_kube::cache::{Cache, CacheOptions};
use kube::Client;
use sqlx::PgPool;

use super::config;
use crate::failure::OrFail;

/// The parts of a broker, and the cache, which a test may read or run. The client must send each
/// request once.
pub(super) fn parts(pool: &PgPool, client: Client, config: BrokerConfig) -> (Parts, Arc<Cache>) {
    let options = CacheOptions::default();
    let (cluster, cache) = kube_cluster(client, options, &config).or_fail("the default options");
    let builder = Broker::configured(config).postgres(pool.clone()).cluster(cluster);
    (builder.parts().or_fail("a configuration that works"), cache)
}

/// The parts of a broker with these cluster timeouts, and the cache.
#[must_use]
pub fn wire(pool: &PgPool, client: Client, timeout: Duration) -> (Parts, Arc<Cache>) {
    let mut config = config("wired");
    config.deadlines.cluster_read = timeout;
    config.deadlines.cluster_write = timeout;
    parts(pool, client, config)
}
