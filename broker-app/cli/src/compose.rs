//! The composition root: settings become a [`BrokerConfig`], a pool and a client, and the front door wires them.

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
use crate::composition::{Composition, Migration, Publication};
use crate::failure::Failure;
use crate::settings::{Replica, Settings};

use no_cluster::NoCluster;

/// The real thing.
pub(crate) struct Servers;

#[async_trait]
impl Composition for Servers {
    async fn service(&self, settings: &Settings) -> Result<Service, Failure> {
        let pool = postgres::current(settings.store()?).await?;
        let mut config = config(settings);
        // A command claims a resource under a name that says what it is.
        let worker = config.worker.as_str().replacen("replica", "cli", 1);
        config.worker = WorkerId::new(worker).map_err(Error::from)?;
        // A command delivers no events: the replicas do.
        let builder = Broker::configured(config).postgres(pool);
        // Most commands never ask the cluster, and should work where it cannot be reached.
        let service = match kubernetes::client(settings).await {
            Ok(client) => builder.kubernetes(client).service(),
            Err(failure) => builder.cluster(NoCluster::because(&failure)).service(),
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
        postgres::import(&postgres::current(settings.store()?).await?, catalog).await
    }

    fn rbac(&self, catalog: &Catalog) -> Result<String, Failure> {
        let blueprints = catalog.blueprints.iter().map(|checked| &checked.blueprint);
        Ok(broker_kube::rbac(blueprints, &ProviderProfiles::default()))
    }
}

/// The defaults, and what the environment says.
fn config(settings: &Settings) -> BrokerConfig {
    let mut config = BrokerConfig::default();
    config.api_url.clone_from(&settings.api_url);
    config.token_ttl = settings.token_ttl;
    config.mode = settings.mode;
    config.sweep_interval = settings.reconcile_interval;
    config
}
