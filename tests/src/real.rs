//! The whole product on real servers: Postgres behind every storage port, an API server behind the
//! cluster port. The harness simulates the rest: Crossplane, the providers, the garbage collector, and
//! agents that boot.
//!
//! The interface resembles the [in-memory world](crate::world): [`RealWorld::round`] is one pass,
//! one round of Crossplane, and an enrolment attempt of every booted machine. A test that runs the
//! broker in other processes calls [`RealWorld::keep_simulating`] instead.

mod adapters;
mod bulk;
mod crossplane;
mod service_variants;
mod fixtures;
mod invariants;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker_app::{
    BrokerConfig, Error, PassResult, Reconciler, Relay, Runner, Service, SweepReport, Sweeper, Work,
};
use broker_domain::{Declaration, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId};
use broker_kube::cache::Cache;
use broker_pg::{EnrolError, PgMesh};
use broker_ports::{Deadlines, Ports};
use broker_render::namespace;
use broker_testkit::builders::id;
use kube::Client;
use secrecy::{ExposeSecret, SecretString};
use sqlx::PgPool;
use tokio::task::JoinSet;

pub use adapters::wire;
pub use bulk::Machine;
pub use crossplane::{Behaviour, Crossplane};
pub use fixtures::Kinds;
pub use fixtures::migrated;
pub(crate) use fixtures::{insert_project, new_project_id};

use crate::K;
use crate::cluster::{LogPosition, TestCluster, TestNamespace};
use crate::failure::OrFail;
use crate::postgres::{TestDatabase, TestPostgres};
use crate::rights::BrokerIdentity;
use crate::world::{operator, runner_over};

/// The lease of a claimed resource. No test waits for its end: see [`RealWorld::expire_leases`].
pub const LEASE: Duration = crate::world::LEASE;

/// The interval of the simulated components' turns while the broker runs concurrently.
const TURN_INTERVAL: Duration = Duration::from_millis(100);

/// Longer than any response takes on a busy machine: only a failed test reaches it.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The broker, its servers, and the simulated components.
pub struct RealWorld {
    /// The world's one Project.
    pub project: ProjectId,
    /// The kinds of its composite resources.
    pub kinds: Kinds,
    /// The control plane.
    pub cluster: TestCluster,
    /// A cluster-admin client.
    pub admin: Client,
    /// The broker's user name on the API server.
    pub user: String,
    /// The broker, with the generated roles for its kinds and its one Project.
    pub broker: BrokerIdentity,
    /// The simulated Crossplane and providers.
    pub crossplane: Arc<Crossplane>,
    /// The facade.
    pub service: Service,
    /// The ports of service and reconciler.
    pub ports: Ports,
    /// One replica's reconciler.
    pub reconciler: Reconciler,
    /// The sweeper of the same replica.
    pub sweeper: Sweeper,
    /// The sweeper's cache; a test has to run it.
    pub cache: Arc<Cache>,
    /// Whether machines boot their agents.
    pub agents_boot: AtomicBool,
    mesh: PgMesh,
    tokens: Mutex<Tokens>,
    /// The position in the API server's log from which requests are checked.
    audit_position: Mutex<LogPosition>,
    pool: PgPool,
    database: TestDatabase,
    namespace: TestNamespace,
}

/// The plaintexts that agents found, for leak checks; `true` if the mesh has given its final answer to one.
type Tokens = BTreeMap<String, bool>;

impl RealWorld {
    /// A world in its own database and namespace, with kinds that such worlds share.
    pub async fn new() -> Self {
        Self::with_kinds(&TestCluster::shared().await, Kinds::shared()).await
    }

    /// A world with exclusive kinds, for a test that counts requests.
    pub async fn with_exclusive_kinds(cluster: &TestCluster) -> Self {
        Self::with_kinds(cluster, Kinds::fresh()).await
    }

    async fn with_kinds(cluster: &TestCluster, kinds: Kinds) -> Self {
        let database = TestPostgres::shared().await.database_from(&migrated()).await;
        let project: ProjectId = new_project_id();
        kinds.install(cluster).await;
        kinds.publish(database.pool(), project).await;
        let namespace = cluster.namespace_named(namespace(project).as_str()).await;
        let admin = cluster.admin().await;
        let user = format!("broker-{project}");
        let broker = kinds.broker(cluster, &user, namespace.name()).await;
        let pool = database.pool_like_binary();
        let (parts, cache) = adapters::parts(&pool, broker.client.clone(), config("replica-1"));
        Self {
            service: parts.service,
            reconciler: parts.reconciler,
            sweeper: parts.sweeper,
            ports: parts.ports,
            cache,
            crossplane: Arc::new(Crossplane::new(&admin, namespace.name(), &kinds)),
            mesh: PgMesh::new(pool.clone()),
            tokens: Mutex::default(),
            audit_position: Mutex::new(cluster.audit_log().mark()),
            agents_boot: AtomicBool::new(true),
            cluster: cluster.clone(),
            admin,
            user,
            broker,
            kinds,
            project,
            pool,
            database,
            namespace,
        }
    }

    /// Direct access to the store, for assertions.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// The database, for a proxy in front of it.
    #[must_use]
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// The content of a kubeconfig for a broker in another process.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.cluster.kubeconfig(&self.user)
    }

    /// The Project's namespace.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.namespace.name().to_owned()
    }

    /// A declaration from one of the blueprints of the [in-memory world](crate::world).
    #[must_use]
    pub fn declaration(&self, blueprint: u128) -> Declaration {
        Declaration::new(self.project, id(2), id(blueprint), id(4))
    }

    /// Declares a resource.
    ///
    /// # Errors
    ///
    /// The errors of the service.
    pub async fn declare(&self, declaration: &Declaration) -> Result<ProvisionedResource, Error> {
        self.service.provision(&operator(), declaration).await
    }

    /// The stored resource.
    pub async fn get(&self, id: ProvisionedResourceId) -> ProvisionedResource {
        self.service.get(&operator(), id).await.or_fail("no stored resource")
    }

    /// One pass, one round of Crossplane, and an enrolment attempt of every booted machine.
    ///
    /// # Errors
    ///
    /// The errors of the pass.
    pub async fn round(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let result = self.reconciler.reconcile(id).await;
        self.turn().await;
        result
    }

    /// One turn of every simulated component.
    pub async fn turn(&self) {
        let documents = self.crossplane.turn().await;
        if self.agents_boot.load(Ordering::Relaxed) {
            self.boot(documents).await;
        }
    }

    /// Repeats the turns until the returned value is dropped.
    #[must_use]
    pub fn keep_simulating(self: &Arc<Self>) -> JoinSet<()> {
        let world = Arc::clone(self);
        let mut simulation = JoinSet::new();
        simulation.spawn(async move {
            loop {
                world.turn().await;
                tokio::time::sleep(TURN_INTERVAL).await;
            }
        });
        simulation
    }

    /// Rounds until the resource is in a phase.
    ///
    /// # Panics
    ///
    /// When the resource does not reach the phase, or a pass fails.
    pub async fn until(&self, id: ProvisionedResourceId, phase: Phase) -> ProvisionedResource {
        for _ in 0..K {
            self.round(id).await.or_fail("a pass failed");
            let resource = self.get(id).await;
            if resource.phase() == phase {
                return resource;
            }
        }
        let (found, objects) =
            (self.get(id).await.phase(), self.crossplane.existing_objects().await);
        panic!("the resource is in {found} after {K} rounds, not in {phase}: {objects:?}");
    }

    /// Declares a resource and brings it into a phase of convergence.
    pub async fn declare_until(
        &self,
        phase: Phase,
        declaration: &Declaration,
    ) -> ProvisionedResource {
        let declared = self.declare(declaration).await.or_fail("a declaration was refused");
        if phase == Phase::Pending {
            return declared;
        }
        // An agent that boots at once would skip Enrolling.
        self.agents_boot.store(phase == Phase::Ready, Ordering::Relaxed);
        let resource = self.until(declared.id(), phase).await;
        self.agents_boot.store(true, Ordering::Relaxed);
        resource
    }

    /// Runs one sweep; returns the work that it found.
    pub async fn sweep(&self) -> (Vec<Work>, SweepReport) {
        self.sweeper.sweep().await.or_fail("a sweep failed")
    }

    /// A runner over this world, not started yet.
    #[must_use]
    pub fn runner(&self) -> Runner {
        self.runner_with(&self.ports, config("runner"))
    }

    /// Like [`runner`](Self::runner), with other ports and another configuration.
    #[must_use]
    pub fn runner_with(&self, ports: &Ports, config: BrokerConfig) -> Runner {
        let relay = Relay::new(self.ports.clone(), config.clone()).or_fail("a relay");
        runner_over(ports, relay, config).or_fail("a runner")
    }

    /// A replica's runner without sweeps after its start: it acts on hints, wake-ups and the
    /// schedule.
    #[must_use]
    pub fn runner_without_sweeps(&self, replica: &str) -> Runner {
        let mut config = config(replica);
        config.sweep_interval = *BrokerConfig::SWEEP_INTERVALS.end();
        self.runner_with(&self.ports, config)
    }

    /// Runs the cache until the returned value is dropped.
    #[must_use]
    pub fn run_cache(&self) -> JoinSet<()> {
        let cache = Arc::clone(&self.cache);
        let mut running = JoinSet::new();
        running.spawn(async move { cache.run(std::future::pending()).await });
        running
    }

    /// The plaintexts of all tokens that machines found, for leak checks.
    #[must_use]
    pub fn plaintexts(&self) -> Vec<String> {
        self.tokens().keys().cloned().collect()
    }

    /// Every machine that found a token tries to enrol with it and to join the mesh.
    async fn boot(&self, documents: Vec<SecretString>) {
        for token in documents {
            let plaintext = token.expose_secret().to_owned();
            let is_answered = *self.tokens().entry(plaintext.clone()).or_default();
            if is_answered {
                continue;
            }
            match self.mesh.enrol(&token).await {
                // The mesh refuses a Node that was deregistered meanwhile.
                Ok(node) => drop(self.mesh.join(node).await),
                Err(EnrolError::Store(_)) => continue,
                Err(_) => {}
            }
            self.tokens().insert(plaintext, true);
        }
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A replica's configuration with deadlines that no test reaches: the servers share two cores with the tests.
#[must_use]
pub fn config(replica: &str) -> BrokerConfig {
    let mut config = crate::world::config(replica);
    config.deadlines = Deadlines::each(TIMEOUT);
    config.event_claim = 3 * TIMEOUT;
    config
}
