//! The composition root: Postgres and Kubernetes into the ports that service and replica need.
//!
//! Here, and nowhere else, stand the times that the binary chose: how long each collaborator may take, how long
//! a lease lasts, how much is done at once.

mod adapters;
mod kubernetes;
mod no_cluster;
mod postgres;
mod system;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_app::explain::Budgets;
use broker_app::{
    ConfigError, Error, LogEventSink, Reconciler, ReconcilerConfig, Relay, RelayConfig, Runner,
    RunnerConfig, Service, ServiceConfig, Sweeper,
};
use broker_pg::migrate;
use broker_ports::{
    Cluster, Deadlines, EventSink, PageSize, PortError, PortName, TokenIssuer, TtlWindow, WorkerId,
};
use broker_render::{Agent, ProviderProfiles};
use tokio::time::timeout;

use crate::catalog::Catalog;
use crate::cli::{Migrate, RunArguments};
use crate::composition::{Composition, Migration, Publication, Wired};
use crate::failure::Failure;
use crate::run::DELIVER_WITHIN;
use crate::settings::{Replica, Settings, SettingsError};

use adapters::Adapters;
use no_cluster::NoCluster;

/// The real thing.
pub(crate) struct Servers;

/// Longer than a pass takes; also how long the resources of a replica that died wait.
const LEASE: Duration = Duration::from_mins(1);

/// What is sent before this much of the lease is left has been answered, or given up on, when it ends.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// How often due work is asked for when no notification came.
const POLL: Duration = Duration::from_secs(1);

/// Passes at once in each of the two lanes. The pool has a connection for each, and some for the rest.
const WORKERS_PER_LANE: usize = 8;

/// How long passes under way may take to finish at the end: less than a supervisor waits by default.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// After how many rejections an event is set aside. With the relay's back-off that takes about four minutes.
const MOST_ATTEMPTS: u32 = 10;

/// Deliveries at once. Each acknowledgement needs a connection of the pool for a moment.
const DELIVERIES_AT_ONCE: u16 = 16;

/// How long an event is claimed: more than a delivery and two calls of the store take.
const EVENT_CLAIM: Duration = Duration::from_secs(30);

/// How often a command that waits looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

const DEADLINES: Deadlines = Deadlines {
    store: Duration::from_secs(5),
    resolve: Duration::from_secs(5),
    cluster_read: Duration::from_secs(15),
    cluster_write: Duration::from_secs(15),
    token: Duration::from_secs(5),
    node: Duration::from_secs(10),
    deliver: DELIVER_WITHIN,
};

#[async_trait]
impl Composition for Servers {
    async fn service(&self, settings: &Settings) -> Result<Service, Failure> {
        let pool = postgres::current(settings.store()?).await?;
        // Most commands never ask the cluster, and should work where it cannot be reached.
        let cluster: Arc<dyn Cluster> = match kubernetes::connect(settings).await {
            Ok((cluster, _)) => cluster,
            Err(failure) => Arc::new(NoCluster::because(&failure)),
        };
        let config = ServiceConfig {
            deadlines: DEADLINES,
            profiles: ProviderProfiles::default(),
            api_url: settings.api_url.clone(),
            agent: Agent::default(),
            worker: worker("cli")?,
            lease: LEASE,
            poll: LOOK_EVERY,
            mode: settings.mode,
            budgets: Budgets::with_token_ttl(settings.token_ttl),
        };
        // A command delivers no events: the replicas do.
        Ok(Service::new(Adapters::new(&pool, cluster).ports(Arc::new(LogEventSink)), config))
    }

    async fn replica(
        &self,
        replica: Replica<'_>,
        arguments: &RunArguments,
        sink: Arc<dyn EventSink>,
    ) -> Result<Wired, Failure> {
        let pool = postgres::current(replica.dsn).await?;
        let (cluster, cache) = kubernetes::connect(replica.settings).await?;
        // A sweep of nothing asks nobody; a replica without its cluster should say so at once.
        let identity = asked(PortName::Cluster, DEADLINES.cluster_read, cluster.identity()).await?;
        let adapters = Adapters::new(&pool, cluster);
        kubernetes::expect_home(&*adapters.store, &identity).await?;
        let window =
            asked(PortName::TokenIssuer, DEADLINES.token, adapters.tokens.ttl_window()).await?;
        check_ttl(replica.settings.token_ttl, window)?;

        let worker = worker("replica")?;
        let config = reconciler_config(replica, worker.clone());
        let ports = adapters.ports(sink);
        let unfit = |error: ConfigError| Failure::Compose {
            what: "this configuration",
            source: error.into(),
        };
        let runner = Runner::new(
            Reconciler::new(ports.clone(), config.clone()),
            Sweeper::new(ports.clone(), config),
            Relay::new(ports, relay_config(worker)).map_err(unfit)?,
            runner_config(replica, arguments),
        )
        .map_err(unfit)?;
        let beside = Box::pin(async move {
            cache.run(pending()).await;
            pending().await
        });
        Ok(Wired { runner, beside })
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

fn reconciler_config(replica: Replica<'_>, worker: WorkerId) -> ReconcilerConfig {
    ReconcilerConfig {
        worker,
        lease: LEASE,
        lease_margin: LEASE_MARGIN,
        deadlines: DEADLINES,
        token_ttl: replica.settings.token_ttl,
        api_url: replica.api_url.clone(),
        agent: Agent::default(),
        profiles: ProviderProfiles::default(),
        allowance: broker_ports::Allowance::default(),
        mode: replica.settings.mode,
    }
}

fn relay_config(worker: WorkerId) -> RelayConfig {
    RelayConfig {
        worker,
        concurrency: PageSize::new(DELIVERIES_AT_ONCE).unwrap_or(PageSize::MAX),
        claim_for: EVENT_CLAIM,
        store_deadline: DEADLINES.store,
        deliver_deadline: DEADLINES.deliver,
        most_attempts: MOST_ATTEMPTS,
        source: "/provisioning-broker".to_owned(),
    }
}

const fn runner_config(replica: Replica<'_>, arguments: &RunArguments) -> RunnerConfig {
    RunnerConfig {
        sweep_interval: replica.settings.reconcile_interval,
        poll_interval: POLL,
        workers_per_lane: WORKERS_PER_LANE,
        strict: arguments.strict,
        stop_within: STOP_WITHIN,
        retention: arguments.retention,
    }
}

fn check_ttl(ttl: Duration, window: TtlWindow) -> Result<(), SettingsError> {
    if window.allows(ttl) {
        return Ok(());
    }
    Err(SettingsError::TokenTtl { ttl, min: window.min, max: window.max })
}

/// A call before the replica runs. Its passes have deadlines of their own; this has one here.
async fn asked<T>(
    port: PortName,
    within: Duration,
    call: impl Future<Output = Result<T, PortError>>,
) -> Result<T, Error> {
    let answer = timeout(within, call).await.unwrap_or_else(|_| {
        let within = humantime::format_duration(within);
        Err(PortError::transient(format!("no answer within {within}")))
    });
    answer.map_err(|source| Error::Port { port, source })
}

/// A name that nobody else has, and that says what it names.
fn worker(role: &str) -> Result<WorkerId, Failure> {
    WorkerId::new(format!("{role}-{}", system::new_id())).map_err(|error| Error::from(error).into())
}
