//! From ports and a configuration to a [`Broker`].

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

/// A broker to be. Without a store and a cluster it has no `build`, so a missing one does not compile.
///
/// ```compile_fail,E0599
/// # use broker_embed::{ApiUrl, Broker};
/// # async fn incomplete(url: ApiUrl) {
/// Broker::builder(url).build().await;
/// # }
/// ```
///
/// The twin that does compile:
///
/// ```
/// # use broker_embed::{ApiUrl, Broker, Ports};
/// # async fn complete(url: ApiUrl, ports: Ports) {
/// Broker::builder(url).ports(ports).build().await;
/// # }
/// ```
#[must_use = "nothing happens before `build`"]
pub struct BrokerBuilder<S, C> {
    config: BrokerConfig,
    store: S,
    cluster: C,
    sink: Option<Arc<dyn EventSink>>,
    clock: Option<Arc<dyn Clock>>,
    ids: Option<Arc<dyn IdSource>>,
}

/// The place of a port that was not given yet.
#[derive(Debug, Clone, Copy)]
pub struct Missing;

/// The ports of the store's side.
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
    /// Looks whether this release can run on the store as it is.
    pub(crate) check: Option<Check>,
    /// How many connections the store's pool opens at most.
    pub(crate) max_connections: Option<u32>,
}

/// The cluster, made from the configuration as it is when the broker is built.
pub struct ClusterPort(MakeCluster);

type MakeCluster = Box<dyn FnOnce(&BrokerConfig) -> Result<Arc<dyn Cluster>, ConfigError> + Send>;

pub(crate) type Failure = Box<dyn StdError + Send + Sync>;
type Checked = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
pub(crate) type Check = Box<dyn Fn() -> Checked + Send + Sync>;

/// What a broker is made of: every part over the same ports and the same configuration.
#[non_exhaustive]
pub struct Parts {
    /// Every port as it is wired.
    pub ports: Ports,
    /// What callers and operators use.
    pub service: Service,
    /// Runs single passes.
    pub reconciler: Reconciler,
    /// Finds what needs a pass.
    pub sweeper: Sweeper,
    /// Delivers events.
    pub relay: Relay,
}

/// Every port, and what `build` checks of the store.
struct Wired {
    ports: Ports,
    config: Arc<BrokerConfig>,
    check: Option<Check>,
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

    /// Every port, wired by the caller. An event sink, clock or id source that was set on the builder before stays.
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
    /// Postgres behind store, schedule, outbox, audit, resolvers, tokens and mesh. [`build`](BrokerBuilder::build)
    /// refuses a schema that this release cannot run on; see [`migrate`](broker_pg::migrate). It also refuses a pool with
    /// fewer connections than [`BrokerConfig::connections`].
    ///
    /// A pool survives a database that stops answering if it was made with [`resilient`](broker_pg::resilient).
    #[cfg(feature = "postgres")]
    pub fn postgres(self, pool: sqlx::PgPool) -> BrokerBuilder<StorePorts, C> {
        let Self { config, cluster, sink, clock, ids, .. } = self;
        let store = crate::stored::store_ports(pool);
        BrokerBuilder { config, store, cluster, sink, clock, ids }
    }
}

impl<S> BrokerBuilder<S, Missing> {
    /// The cluster behind an API server. The broker runs the watch cache beside its runner.
    ///
    /// The client has to send each request once: make it from [`client_config`](broker_kube::client_config).
    #[cfg(feature = "kubernetes")]
    pub fn kubernetes(self, client: kube::Client) -> BrokerBuilder<S, ClusterPort> {
        self.kubernetes_with(client, CacheOptions::default())
    }

    /// As [`kubernetes`](Self::kubernetes), with other options of the watch cache, which
    /// [`build`](BrokerBuilder::build) validates. The cache keeps a kind for at least
    /// three times [`BrokerConfig::sweep_interval`], even if [`CacheOptions::unused_after`] is shorter: otherwise every
    /// sweep would list it again.
    #[cfg(feature = "kubernetes")]
    pub fn kubernetes_with(
        self,
        client: kube::Client,
        options: CacheOptions,
    ) -> BrokerBuilder<S, ClusterPort> {
        self.with_cluster(Box::new(|config| {
            let (cluster, _) = crate::clustered::kube_cluster(client, options, config)?;
            Ok(Arc::new(cluster))
        }))
    }

    /// A cluster of the embedder's own.
    pub fn cluster(self, cluster: impl Cluster + 'static) -> BrokerBuilder<S, ClusterPort> {
        self.with_cluster(Box::new(|_| Ok(Arc::new(cluster))))
    }

    fn with_cluster(self, cluster: MakeCluster) -> BrokerBuilder<S, ClusterPort> {
        let Self { config, store, sink, clock, ids, .. } = self;
        BrokerBuilder { config, store, cluster: ClusterPort(cluster), sink, clock, ids }
    }
}

/// Puts a port in the place of the one that the store brought, which it is given.
macro_rules! replaced {
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

replaced! {
    /// Another issuer of bootstrap tokens. It is given the one that the store brought.
    token_issuer: tokens, TokenIssuer;
    /// Another way to drain and remove Nodes. It is given the one that the store brought.
    node_deregistrar: nodes, NodeDeregistrar;
    /// Another catalog. It is given the one that the store brought.
    blueprint_resolver: blueprints, BlueprintResolver;
    /// Another source of clouds. It is given the one that the store brought.
    cloud_resolver: clouds, CloudResolver;
    /// Another source of credentials. It is given the one that the store brought.
    credential_resolver: credentials, CredentialResolver;
    /// Another source of assignments and namespaces. It is given the one that the store brought.
    assignment_reader: assignments, AssignmentReader;
    /// Another source of labels. It is given the one that the store brought.
    label_tag_resolver: labels, LabelTagResolver;
    /// Another store of resources. It is given the one that the store brought.
    repository: repository, Repository;
    /// Another schedule. It is given the one that the store brought.
    schedule: schedule, Schedule;
    /// Another outbox. It is given the one that the store brought.
    outbox: outbox, Outbox;
    /// Another audit. It is given the one that the store brought.
    audit_sink: audit, AuditSink;
}

impl<S, C> BrokerBuilder<S, C> {
    /// Changes the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut BrokerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Where events are delivered to. Without it they are logged.
    pub fn event_sink(mut self, sink: impl EventSink + 'static) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Another clock than the machine's.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Another source of ids than version 7 UUIDs.
    pub fn id_source(mut self, ids: impl IdSource + 'static) -> Self {
        self.ids = Some(Arc::new(ids));
        self
    }
}

impl<S> BrokerBuilder<S, ClusterPort> {
    /// Puts a cluster in the place of the present one, which it is given. It forwards every method that it does not change,
    /// [`Cluster::watch`] too: without that the cache stays cold, and every sweep costs lists.
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
    /// The service alone, for a process that calls the broker and does not run it. Store and cluster are not asked, the
    /// API URL may be missing, and any pool is large enough.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn service(self) -> Result<Service, ConfigError> {
        self.config.validate_service()?;
        let Wired { ports, config, .. } = self.wire()?;
        Ok(Service::new(ports, config))
    }

    /// The parts, for a process that steps through them by itself instead of running them. Only the configuration is
    /// validated.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn parts(self) -> Result<Parts, ConfigError> {
        let Wired { ports, config, .. } = self.wire()?;
        Parts::new(ports, &config)
    }

    /// The broker, if it can work: the configuration is sound, the schema is one that this release can run on, the
    /// cluster answers and is the one of the store's resources, and the issuer allows the tokens' time to live.
    ///
    /// # Errors
    ///
    /// [`BrokerError`].
    pub async fn build(self) -> Result<Broker, BrokerError> {
        let broker = self.build_unchecked()?;
        broker.check().await?;
        Ok(broker)
    }

    /// The broker, before store and cluster are asked anything: [`Broker::service`] serves while they do not answer, and
    /// [`Broker::run`] makes the checks of [`build`](Self::build) before it starts.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn build_unchecked(self) -> Result<Broker, ConfigError> {
        let Wired { ports, config, check, max_connections } = self.wire()?;
        let parts = Parts::new(ports, &config)?;
        if let Some(max_connections) = max_connections {
            config.validate_pool(max_connections)?;
        }
        Broker::new(parts, check)
    }

    fn wire(self) -> Result<Wired, ConfigError> {
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
        Ok(Wired { ports, config: Arc::new(config), check, max_connections })
    }
}
