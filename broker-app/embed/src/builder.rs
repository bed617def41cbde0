//! Builds a [`Broker`] from ports and a configuration.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use broker_app::ports::{
    AssignmentReader, AuditSink, BlueprintResolver, Clock, CloudResolver, Cluster,
    CredentialResolver, EventSink, IdSource, LabelTagResolver, NodeDeregistrar, Outbox, Ports,
    Repository, Schedule, TokenIssuer,
};
use broker_app::{
    BrokerConfig, ConfigError, LogEventSink, Reconciler, Relay, Service, Sweeper, SystemClock,
    SystemIds,
};

#[cfg(feature = "kubernetes")]
use broker_kube::cache::CacheOptions;

use crate::broker::{Broker, BrokerError};

/// Builds a [`Broker`]. It has `build` only once a store and a cluster are set, so forgetting one is a compile error.
///
/// ```compile_fail,E0599
/// # use broker_embed::{ApiUrl, Broker};
/// # async fn incomplete(url: ApiUrl) {
/// Broker::builder(url).build().await;
/// # }
/// ```
///
/// This compiles:
///
/// ```
/// # use broker_embed::{ApiUrl, Broker, Ports};
/// # async fn complete(url: ApiUrl, ports: Ports) {
/// Broker::builder(url).ports(ports).build().await;
/// # }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct BrokerBuilder<S, C> {
    config: BrokerConfig,
    store: S,
    cluster: C,
    sink: Option<Arc<dyn EventSink>>,
    clock: Option<Arc<dyn Clock>>,
    ids: Option<Arc<dyn IdSource>>,
}

/// Marks a builder without a store or without a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Missing;

/// Every port but the cluster, the event sink, the clock and the ids.
pub struct StorePorts {
    pub(crate) repository: Arc<dyn Repository>,
    pub(crate) schedule: Arc<dyn Schedule>,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) audit: Arc<dyn AuditSink>,
    pub(crate) tokens: Arc<dyn TokenIssuer>,
    pub(crate) nodes: Arc<dyn NodeDeregistrar>,
    pub(crate) blueprints: Arc<dyn BlueprintResolver>,
    pub(crate) clouds: Arc<dyn CloudResolver>,
    pub(crate) credentials: Arc<dyn CredentialResolver>,
    pub(crate) assignments: Arc<dyn AssignmentReader>,
    pub(crate) labels: Arc<dyn LabelTagResolver>,
    /// Checks whether this release can run on the schema of the store.
    pub(crate) check: Option<StoreCheck>,
    /// The size of the store's connection pool, if it has one.
    pub(crate) max_connections: Option<u32>,
}

/// Creates the cluster port when the broker is built, from the configuration at that time.
pub struct ClusterPort(MakeCluster);

type MakeCluster = Box<dyn FnOnce(&BrokerConfig) -> Result<Arc<dyn Cluster>, ConfigError> + Send>;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;
type CheckFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;
pub(crate) type StoreCheck = Box<dyn Fn() -> CheckFuture + Send + Sync>;

/// The parts of a broker. All use the same ports and the same configuration.
#[non_exhaustive]
pub struct Parts {
    /// The ports.
    pub ports: Ports,
    /// The methods for callers and operators.
    pub service: Service,
    /// Runs single passes.
    pub reconciler: Reconciler,
    /// Finds the resources that need a pass.
    pub sweeper: Sweeper,
    /// Delivers events.
    pub relay: Relay,
}

/// The ports and the configuration, with the input of the checks that `build` makes.
struct WiredPorts {
    ports: Ports,
    config: Arc<BrokerConfig>,
    check: Option<StoreCheck>,
    max_connections: Option<u32>,
}

impl Parts {
    pub(crate) fn new(ports: Ports, config: &Arc<BrokerConfig>) -> Result<Self, ConfigError> {
        Ok(Self {
            service: Service::new(ports.clone(), Arc::clone(config)),
            reconciler: Reconciler::new(ports.clone(), Arc::clone(config)),
            sweeper: Sweeper::new(ports.clone(), Arc::clone(config)),
            relay: Relay::new(ports.clone(), Arc::clone(config))?,
            ports,
        })
    }
}

impl BrokerBuilder<Missing, Missing> {
    pub(crate) fn new(config: BrokerConfig) -> Self {
        Self { config, store: Missing, cluster: Missing, sink: None, clock: None, ids: None }
    }

    /// Sets every port. An event sink, clock or id source that was set on the builder earlier takes precedence.
    pub fn ports(self, ports: Ports) -> BrokerBuilder<StorePorts, ClusterPort> {
        let cluster = ports.cluster;
        let store = StorePorts {
            repository: ports.repository,
            schedule: ports.schedule,
            outbox: ports.outbox,
            audit: ports.audit,
            tokens: ports.tokens,
            nodes: ports.nodes,
            blueprints: ports.blueprints,
            clouds: ports.clouds,
            credentials: ports.credentials,
            assignments: ports.assignments,
            labels: ports.labels,
            check: None,
            max_connections: None,
        };
        let Self { config, sink, clock, ids, .. } = self;
        BrokerBuilder {
            config,
            store,
            cluster: ClusterPort(Box::new(|_| Ok(cluster))),
            sink: sink.or(Some(ports.sink)),
            clock: clock.or(Some(ports.clock)),
            ids: ids.or(Some(ports.ids)),
        }
    }
}

impl<C> BrokerBuilder<Missing, C> {
    /// Uses Postgres for store, schedule, outbox, audit, resolvers, tokens and mesh. [`build`](BrokerBuilder::build)
    /// refuses a schema that this release cannot run on; see [`migrate`](broker_pg::migrate). It also refuses a pool with
    /// fewer connections than [`BrokerConfig::connections`].
    ///
    /// Create the pool with [`test_idle_connections`](broker_pg::test_idle_connections), so that it recovers from a database that stops answering.
    #[cfg(feature = "postgres")]
    pub fn postgres(self, pool: sqlx::PgPool) -> BrokerBuilder<StorePorts, C> {
        let Self { config, cluster, sink, clock, ids, .. } = self;
        let store = crate::pg_ports::store_ports(pool);
        BrokerBuilder { config, store, cluster, sink, clock, ids }
    }
}

impl<S> BrokerBuilder<S, Missing> {
    /// Uses the cluster of a Kubernetes API server. [`Broker::run`] also runs the watch cache.
    ///
    /// The client must not retry requests: create it from [`client_config`](broker_kube::client_config).
    #[cfg(feature = "kubernetes")]
    pub fn kubernetes(self, client: kube::Client) -> BrokerBuilder<S, ClusterPort> {
        self.kubernetes_with(client, CacheOptions::default())
    }

    /// As [`kubernetes`](Self::kubernetes), with options of the watch cache, which [`build`](BrokerBuilder::build)
    /// validates. The cache keeps a kind for at least three times [`BrokerConfig::sweep_interval`], even if
    /// [`CacheOptions::unused_after`] is shorter. Otherwise every sweep would list the kind again.
    #[cfg(feature = "kubernetes")]
    pub fn kubernetes_with(
        self,
        client: kube::Client,
        options: CacheOptions,
    ) -> BrokerBuilder<S, ClusterPort> {
        self.with_cluster(Box::new(|config| {
            let (cluster, _) = crate::kube_ports::kube_cluster(client, options, config)?;
            Ok(Arc::new(cluster))
        }))
    }

    /// Uses the embedder's own cluster adapter.
    pub fn cluster(self, cluster: impl Cluster + 'static) -> BrokerBuilder<S, ClusterPort> {
        self.with_cluster(Box::new(|_| Ok(Arc::new(cluster))))
    }

    fn with_cluster(self, cluster: MakeCluster) -> BrokerBuilder<S, ClusterPort> {
        let Self { config, store, sink, clock, ids, .. } = self;
        BrokerBuilder { config, store, cluster: ClusterPort(cluster), sink, clock, ids }
    }
}

/// Generates a method per port that replaces the port of the store; `replace` receives the replaced port.
macro_rules! replace_methods {
    ($($(#[$doc:meta])* $method:ident: $field:ident, $port:ident;)+) => {
        impl<C> BrokerBuilder<StorePorts, C> {
            $(
                $(#[$doc])*
                pub fn $method<P: $port + 'static>(
                    mut self,
                    replace: impl FnOnce(Arc<dyn $port>) -> P,
                ) -> Self {
                    self.store.$field = Arc::new(replace(self.store.$field));
                    self
                }
            )+
        }
    };
}

replace_methods! {
    /// Replaces the issuer of bootstrap tokens; `replace` receives the store's.
    token_issuer: tokens, TokenIssuer;
    /// Replaces the port that drains and removes Nodes; `replace` receives the store's.
    node_deregistrar: nodes, NodeDeregistrar;
    /// Replaces the catalog of blueprints; `replace` receives the store's.
    blueprint_resolver: blueprints, BlueprintResolver;
    /// Replaces the source of clouds; `replace` receives the store's.
    cloud_resolver: clouds, CloudResolver;
    /// Replaces the source of credentials; `replace` receives the store's.
    credential_resolver: credentials, CredentialResolver;
    /// Replaces the source of assignments and namespaces; `replace` receives the store's.
    assignment_reader: assignments, AssignmentReader;
    /// Replaces the source of labels; `replace` receives the store's.
    label_tag_resolver: labels, LabelTagResolver;
    /// Replaces the repository of resources; `replace` receives the store's.
    repository: repository, Repository;
    /// Replaces the schedule; `replace` receives the store's.
    schedule: schedule, Schedule;
    /// Replaces the outbox; `replace` receives the store's.
    outbox: outbox, Outbox;
    /// Replaces the audit sink; `replace` receives the store's.
    audit_sink: audit, AuditSink;
}

impl<S, C> BrokerBuilder<S, C> {
    /// Changes the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut BrokerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the receiver of events. Default: a log line per event.
    pub fn event_sink(mut self, sink: impl EventSink + 'static) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Sets the clock. Default: the machine's.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Sets the source of ids. Default: version 7 UUIDs.
    pub fn id_source(mut self, ids: impl IdSource + 'static) -> Self {
        self.ids = Some(Arc::new(ids));
        self
    }
}

impl<S> BrokerBuilder<S, ClusterPort> {
    /// Replaces the cluster; `replace` receives the current one. The new cluster has to forward every method that it does
    /// not change, also [`Cluster::watch`]: otherwise the watch cache stays empty and every sweep lists all objects.
    pub fn map_cluster<P: Cluster + 'static>(
        mut self,
        replace: impl FnOnce(Arc<dyn Cluster>) -> P + Send + 'static,
    ) -> Self {
        let make = self.cluster.0;
        self.cluster = ClusterPort(Box::new(|config| Ok(Arc::new(replace(make(config)?)))));
        self
    }
}

impl BrokerBuilder<StorePorts, ClusterPort> {
    /// Builds only the service, for a process that does not run the broker. It calls neither store nor cluster, the API
    /// URL may be missing, and the size of the pool is not checked.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration is invalid.
    pub fn service(self) -> Result<Service, ConfigError> {
        self.config.validate_service()?;
        let WiredPorts { ports, config, .. } = self.wire()?;
        Ok(Service::new(ports, config))
    }

    /// Builds the parts, for a process that calls them one by one instead of [`Broker::run`]. It validates only the
    /// configuration.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration is invalid.
    pub fn parts(self) -> Result<Parts, ConfigError> {
        let WiredPorts { ports, config, .. } = self.wire()?;
        Parts::new(ports, &config)
    }

    /// Builds the broker and checks that it can run:
    ///
    /// - the configuration is valid,
    /// - this release can run on the schema of the store,
    /// - the cluster answers, and the resources of the store are on it,
    /// - the token issuer allows the configured time to live.
    ///
    /// # Errors
    ///
    /// [`BrokerError`] with the first failed check.
    pub async fn build(self) -> Result<Broker, BrokerError> {
        let broker = self.build_unchecked()?;
        broker.check().await?;
        Ok(broker)
    }

    /// Builds the broker without a call to store or cluster, so [`Broker::service`] is available even if they are down.
    /// [`Broker::run`] makes the checks of [`build`](Self::build) first.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration is invalid.
    pub fn build_unchecked(self) -> Result<Broker, ConfigError> {
        let WiredPorts { ports, config, check, max_connections } = self.wire()?;
        let parts = Parts::new(ports, &config)?;
        if let Some(max_connections) = max_connections {
            config.validate_pool(max_connections)?;
        }
        Broker::new(parts, check)
    }

    fn wire(self) -> Result<WiredPorts, ConfigError> {
        let Self { config, store, cluster, sink, clock, ids } = self;
        let ports = Ports {
            repository: store.repository,
            schedule: store.schedule,
            outbox: store.outbox,
            cluster: cluster.0(&config)?,
            tokens: store.tokens,
            nodes: store.nodes,
            blueprints: store.blueprints,
            clouds: store.clouds,
            credentials: store.credentials,
            assignments: store.assignments,
            labels: store.labels,
            audit: store.audit,
            sink: sink.unwrap_or_else(|| Arc::new(LogEventSink)),
            clock: clock.unwrap_or_else(|| Arc::new(SystemClock)),
            ids: ids.unwrap_or_else(|| Arc::new(SystemIds)),
        };
        let StorePorts { check, max_connections, .. } = store;
        Ok(WiredPorts { ports, config: Arc::new(config), check, max_connections })
    }
}
