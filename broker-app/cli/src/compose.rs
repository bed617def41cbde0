//! The composition root: converts settings into a [`BrokerConfig`], a pool and a client for the [`Broker`] builder.

mod kubernetes;
mod no_cluster;
mod postgres;

use std::sync::Arc;

use async_trait::async_trait;
use broker_app::{BrokerConfig, Error, Service};
use broker_embed::{Broker, BrokerError};
use broker_pg::migrate;
use broker_ports::{EventSink, WorkerId};
use broker_render::ProviderProfiles;

use crate::catalog::Catalog;
use crate::cli::{Migrate, RunArguments};
use crate::wiring::{Wiring, Migration, Publication};
use crate::failure::Failure;
use crate::settings::{Replica, Settings};
use crate::wiring::{Migration, Publication, Wiring};

use no_cluster::NoCluster;

/// Postgres and Kubernetes.
pub(crate) struct Servers;

#[async_trait]
impl Wiring for Servers {
    async fn service(&self, settings: &Settings) -> Result<Service, Failure> {
        let pool = postgres::connect_checked(settings.store()?).await?;
        let mut config = config(settings);
        // The worker name of a lease distinguishes commands from replicas.
        let worker = config.worker.as_str().replacen("replica", "cli", 1);
        config.worker = WorkerId::new(worker).map_err(Error::from)?;
        // Replicas deliver the events, not commands.
        let builder = Broker::configured(config).postgres(pool);
        // Most commands do not use the cluster and must work without it.
        let service = match kubernetes::client(settings).await {
            Ok(client) => builder.kubernetes(client).service(),
            Err(failure) => builder.cluster(NoCluster::after(&failure)).service(),
        };
        Ok(service.map_err(BrokerError::from)?)
    }

    async fn replica(
        &self,
        replica: Replica<'_>,
        arguments: &RunArguments,
        sink: Arc<dyn EventSink>,
    ) -> Result<Broker, Failure> {
        let mut config = config(replica.settings);
        config.api_url = Some(replica.api_url.clone());
        config.strict = arguments.strict;
        config.retention = arguments.retention;
        let built = Broker::configured(config)
            .postgres(postgres::connect(replica.dsn).await?)
            .kubernetes(kubernetes::client(replica.settings).await?)
            .event_sink(sink)
            .build();
        Ok(built.await?)
    }

    async fn migrate(
        &self,
        settings: &Settings,
        command: Migrate,
    ) -> Result<Vec<Migration>, Failure> {
        let pool = postgres::connect(settings.store()?).await?;
        let migrated = async {
            match command {
                Migrate::Up { reference, .. } => {
                    if reference {
                        migrate::reference_up(&pool).await?;
                    }
                    migrate::up(&pool).await?;
                }
                Migrate::Down { to, .. } => drop(migrate::down(&pool, to).await?),
                Migrate::Status { .. } | Migrate::Sql { .. } => {}
            }
            migrate::status(&pool).await
        };
        let status = migrated.await.map_err(postgres::unusable)?;
        let migration = |status: migrate::MigrationStatus| Migration {
            version: status.version,
            name: status.name.to_owned(),
            applied_at: status.applied_at,
        };
        Ok(status.into_iter().map(migration).collect())
    }

    async fn import(
        &self,
        settings: &Settings,
        catalog: &Catalog,
    ) -> Result<Vec<Publication>, Failure> {
        postgres::import(&postgres::connect_checked(settings.store()?).await?, catalog).await
    }

    fn rbac(&self, catalog: &Catalog) -> Result<String, Failure> {
        let blueprints = catalog.blueprints.iter().map(|checked| &checked.blueprint);
        Ok(broker_kube::rbac(blueprints, &ProviderProfiles::default()))
    }
}

/// The defaults, overridden by the settings.
fn config(settings: &Settings) -> BrokerConfig {
    let mut config = BrokerConfig::default();
    config.api_url.clone_from(&settings.api_url);
    config.token_ttl = settings.token_ttl;
    config.mode = settings.mode;
    config.sweep_interval = settings.reconcile_interval;
    config
}
