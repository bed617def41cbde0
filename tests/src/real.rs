//! The whole product on real servers: Postgres behind every port that stores, an API server behind the cluster
//! port. The harness plays the rest: Crossplane, the providers, the garbage collector, and agents that boot.
//!
//! It reads like the [world in memory](crate::world): [`RealWorld::round`] is one pass, one round of Crossplane,
//! and every machine that booted trying to enrol. A test that runs the broker in processes of its own lets
//! [`RealWorld::keep_turning`] play meanwhile.

mod adapters;
mod bulk;
mod crossplane;
mod explaining;
mod furniture;
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
pub(crate) use crossplane::written_token;
pub use crossplane::{Behaviour, Crossplane};
pub use furniture::Kinds;
pub use furniture::migrated;
pub(crate) use furniture::{fresh_project, know};

use crate::K;
use crate::cluster::{Mark, TestCluster, TestNamespace};
use crate::failure::OrFail;
use crate::postgres::{TestDatabase, TestPostgres};
use crate::rights::BrokerIdentity;
use crate::world::{operator, runner_over};

/// How long a claimed resource belongs to a worker. Nothing waits for its end: see
/// [`RealWorld::let_leases_end`].
pub const LEASE: Duration = crate::world::LEASE;

/// How often Crossplane has its turn while the broker runs by itself.
const TURN: Duration = Duration::from_millis(100);

/// Longer than any answer takes on a busy machine; only bounds a failure.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Everything, wired together.
pub struct RealWorld {
    /// The world's one Project.
    pub project: ProjectId,
    /// The kinds of its composite resources.
    pub kinds: Kinds,
    /// The control plane.
    pub cluster: TestCluster,
    /// Who may do everything.
    pub admin: Client,
    /// The name by which the API server knows the broker.
    pub user: String,
    /// The broker, with the generated roles for its kinds and its one Project.
    pub broker: BrokerIdentity,
    /// What is played.
    pub crossplane: Arc<Crossplane>,
    /// The facade.
    pub service: Service,
    /// What service and reconciler are wired to.
    pub ports: Ports,
    /// One replica's reconciler.
    pub reconciler: Reconciler,
    /// Its sweeper.
    pub sweeper: Sweeper,
    /// What the sweeper is answered from, once somebody runs it.
    pub cache: Arc<Cache>,
    /// Machines boot their agents; a test may hold them back.
    pub agents_boot: AtomicBool,
    mesh: PgMesh,
    tokens: Mutex<Tokens>,
    /// From where on the API server's log is looked at.
    asked_since: Mutex<Mark>,
    pool: PgPool,
    database: TestDatabase,
    namespace: TestNamespace,
}

/// The plaintexts that agents found, to look for where they must not be; `true` if nobody need try them again.
type Tokens = BTreeMap<String, bool>;

impl RealWorld {
    /// A world in a database and a namespace of its own, with kinds that such worlds share.
    ///
    /// # Panics
    ///
    /// When the servers cannot be had.
    pub async fn new() -> Self {
        Self::with_kinds(&TestCluster::shared().await, Kinds::shared()).await
    }

    /// The same with kinds that nobody else has, for a test that counts.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub async fn alone(cluster: &TestCluster) -> Self {
        Self::with_kinds(cluster, Kinds::fresh()).await
    }

    async fn with_kinds(cluster: &TestCluster, kinds: Kinds) -> Self {
        let database = TestPostgres::shared().await.database_from(&migrated()).await;
        let project: ProjectId = fresh_project();
        kinds.install(cluster).await;
        kinds.publish(database.pool(), project).await;
        let home = cluster.namespace_named(namespace(project).as_str()).await;
        let admin = cluster.admin().await;
        let user = format!("broker-{project}");
        let broker = kinds.broker(cluster, &user, home.name()).await;
        let pool = database.trusting_pool();
        let (parts, cache) = adapters::parts(&pool, broker.client.clone(), config("replica-1"));
        Self {
            service: parts.service,
            reconciler: parts.reconciler,
            sweeper: parts.sweeper,
            ports: parts.ports,
            cache,
            crossplane: Arc::new(Crossplane::new(&admin, home.name(), &kinds)),
            mesh: PgMesh::new(pool.clone()),
            tokens: Mutex::default(),
            asked_since: Mutex::new(cluster.audit_log().mark()),
            agents_boot: AtomicBool::new(true),
            cluster: cluster.clone(),
            admin,
            user,
            broker,
            kinds,
            project,
            pool,
            database,
            namespace: home,
        }
    }

    /// What a test looks with, past the store.
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
    pub fn home(&self) -> String {
        self.namespace.name().to_owned()
    }

    /// A declaration from one of the blueprints of [the world in memory](crate::world).
    #[must_use]
    pub fn declaration(&self, blueprint: u128) -> Declaration {
        Declaration::new(self.project, id(2), id(blueprint), id(4))
    }

    /// Declares a resource.
    ///
    /// # Errors
    ///
    /// As the service.
    pub async fn declare(&self, declaration: &Declaration) -> Result<ProvisionedResource, Error> {
        self.service.provision(&operator(), declaration).await
    }

    /// The resource as it is stored.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub async fn get(&self, id: ProvisionedResourceId) -> ProvisionedResource {
        self.service.get(&operator(), id).await.or_fail("no stored resource")
    }

    /// One pass, one round of Crossplane, and every machine that booted tries to enrol.
    ///
    /// # Errors
    ///
    /// As the pass.
    pub async fn round(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let passed = self.reconciler.reconcile(id).await;
        self.turn().await;
        passed
    }

    /// Everybody but the broker has a turn.
    ///
    /// # Panics
    ///
    /// When a server does not answer.
    pub async fn turn(&self) {
        let documents = self.crossplane.turn().await;
        if self.agents_boot.load(Ordering::Relaxed) {
            self.boot(documents).await;
        }
    }

    /// Lets everybody but the broker go on by themselves, until the answer is dropped.
    #[must_use]
    pub fn keep_turning(self: &Arc<Self>) -> JoinSet<()> {
        let world = Arc::clone(self);
        let mut turning = JoinSet::new();
        turning.spawn(async move {
            loop {
                world.turn().await;
                tokio::time::sleep(TURN).await;
            }
        });
        turning
    }

    /// Rounds until the resource is in a phase.
    ///
    /// # Panics
    ///
    /// When it does not get there, or a pass fails on the way.
    pub async fn until(&self, id: ProvisionedResourceId, phase: Phase) -> ProvisionedResource {
        for _ in 0..K {
            self.round(id).await.or_fail("a pass failed");
            let resource = self.get(id).await;
            if resource.phase() == phase {
                return resource;
            }
        }
        let (now, standing) = (self.get(id).await.phase(), self.crossplane.standing().await);
        panic!("the resource is in {now} after {K} rounds, not in {phase}: {standing:?}");
    }

    /// Declares a resource and brings it into a phase on the way up.
    ///
    /// # Panics
    ///
    /// As [`until`](Self::until).
    pub async fn brought_to(&self, phase: Phase, declaration: &Declaration) -> ProvisionedResource {
        let declared = self.declare(declaration).await.or_fail("a declaration was refused");
        if phase == Phase::Pending {
            return declared;
        }
        // An agent that boots at once would leave nothing to see of Enrolling.
        self.agents_boot.store(phase == Phase::Ready, Ordering::Relaxed);
        let resource = self.until(declared.id(), phase).await;
        self.agents_boot.store(true, Ordering::Relaxed);
        resource
    }

    /// Sweeps once; answers what needs a pass.
    ///
    /// # Panics
    ///
    /// When store or cluster do not answer.
    pub async fn sweep(&self) -> (Vec<Work>, SweepReport) {
        self.sweeper.sweep().await.or_fail("a sweep failed")
    }

    /// A runner over this world that does not run yet.
    ///
    /// # Panics
    ///
    /// Never.
    #[must_use]
    pub fn runner(&self) -> Runner {
        self.runner_with(&self.ports, config("runner"))
    }

    /// The same, over other ports and configured otherwise.
    ///
    /// # Panics
    ///
    /// When the configuration cannot work.
    #[must_use]
    pub fn runner_with(&self, ports: &Ports, config: BrokerConfig) -> Runner {
        let relay = Relay::new(self.ports.clone(), config.clone()).or_fail("a relay");
        runner_over(ports, relay, config).or_fail("a runner")
    }

    /// A replica's runner that never sweeps again once it has started: it works on what hints, wake-ups and the schedule
    /// name.
    ///
    /// # Panics
    ///
    /// Never.
    #[must_use]
    pub fn runner_without_sweeps(&self, replica: &str) -> Runner {
        let mut config = config(replica);
        config.sweep_interval = Duration::from_hours(24);
        self.runner_with(&self.ports, config)
    }

    /// Runs the cache until the answer is dropped.
    #[must_use]
    pub fn run_cache(&self) -> JoinSet<()> {
        let cache = Arc::clone(&self.cache);
        let mut running = JoinSet::new();
        running.spawn(async move { cache.run(std::future::pending()).await });
        running
    }

    /// The plaintexts of all tokens that machines found, to look for where they must not be.
    #[must_use]
    pub fn plaintexts(&self) -> Vec<String> {
        self.tokens().keys().cloned().collect()
    }

    /// Every machine that found a token tries to enrol with it, and joins the mesh.
    async fn boot(&self, documents: Vec<SecretString>) {
        for token in documents {
            let plaintext = token.expose_secret().to_owned();
            let spent = *self.tokens().entry(plaintext.clone()).or_default();
            if spent {
                continue;
            }
            match self.mesh.enrol(&token).await {
                // A Node that was told to leave meanwhile is not let in; that is the mesh's business.
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

/// The configuration of a replica, with deadlines that nothing reaches.
///
/// # Panics
///
/// Never.
#[must_use]
pub fn config(replica: &str) -> BrokerConfig {
    let mut config = crate::world::config(replica);
    config.deadlines = Deadlines::each(PATIENCE);
    config.event_claim = 3 * PATIENCE;
    config
}
