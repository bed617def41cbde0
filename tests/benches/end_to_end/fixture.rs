//! The servers and the broker under measurement, a client without the broker, and counts of the requests and writes of
//! each.

use std::future::Future;
use std::sync::{Arc, Mutex};

use broker_app::{BrokerConfig, Relay};
use broker_embed::{Broker, Parts};
use broker_kube::cache::Cache;
use broker_ports::{EventSink, PageSize, Ports};
use broker_tests::TestCluster;
use broker_tests::cluster::LogPosition;
use broker_tests::real::{RealWorld, config};
use futures::StreamExt as _;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, PgPool, Postgres};
use tokio::task::JoinSet;

use super::harness::Way;

/// A world on real servers, and a client for the ways without the broker.
pub(super) struct Fixture {
    pub(super) world: Arc<RealWorld>,
    /// Uses the same driver as the broker.
    pub(super) bare_client: Client,
    /// The user of `bare_client` in the API server's audit log.
    bare_user: String,
}

/// The start of a count of requests and writes.
pub(super) struct CountStart {
    requests: LogPosition,
    transactions: i64,
}

/// The requests and writes of one run; `None` means not counted, which differs from zero.
#[derive(Debug, Serialize)]
pub(super) struct ServerCounts {
    /// Requests to the real or simulated API server, without watches.
    requests: Option<usize>,
    /// Transactions that wrote.
    commits: Option<i64>,
    /// Distinct rows that they wrote.
    rows: Option<i64>,
}

impl ServerCounts {
    /// For workloads without servers.
    pub(super) const NOT_COUNTED: Self = Self { requests: None, commits: None, rows: None };

    /// The same, with the requests to a simulated API server.
    pub(super) fn with_requests(self, requests: usize) -> Self {
        Self { requests: Some(requests), ..self }
    }

    /// `false` if a count is missing.
    pub(super) fn is_zero(&self) -> bool {
        let Self { requests, commits, rows } = self;
        (*requests, *commits, *rows) == (Some(0), Some(0), Some(0))
    }
}

/// Every table that a workload writes to.
const TABLES: [&str; 9] = [
    "provisioned_resources",
    "provisioned_resource_schedule",
    "provisioned_resource_outbox_token",
    "provisioned_resource_audit",
    "provisioning_turns",
    "provisioning_outbox",
    "bootstrap_token_ledgers",
    "bootstrap_tokens",
    "nodes",
];

/// The next transaction id. Only transactions that write take one, and only the workload writes on these servers.
const TRANSACTIONS: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";

impl Fixture {
    /// A world with exclusive kinds.
    pub(super) async fn new() -> Self {
        let cluster = TestCluster::shared().await;
        let world = Arc::new(RealWorld::with_exclusive_kinds(&cluster).await);
        let bare_user = format!("bare-{}", world.project);
        let bare_client =
            cluster.identity_in(&bare_user, broker_test_servers::servers::MASTERS).await;
        for table in TABLES {
            // Autovacuum would be counted. Workloads vacuum before they begin.
            let disable =
                format!("ALTER TABLE plexsphere.{table} SET (autovacuum_enabled = false)");
            world.pool().execute(AssertSqlSafe(disable)).await.unwrap();
        }
        Self { world, bare_client, bare_user }
    }

    pub(super) async fn start_counting(&self) -> CountStart {
        let transactions = self.transactions().await;
        CountStart { requests: self.world.cluster.audit_log().mark(), transactions }
    }

    pub(super) async fn counts_since(&self, start: &CountStart, way: Way) -> ServerCounts {
        let commits = self.transactions().await - start.transactions;
        let user = match way {
            Way::Ours => &self.world.user,
            Way::Baseline | Way::Naive => &self.bare_user,
        };
        let requests = self.world.cluster.audit_log().since(start.requests, user).await;
        // The server ends and the client restarts watches at arbitrary times.
        let requests = requests.iter().filter(|request| request.verb != "watch").count();
        let rows = self.rows(start.transactions).await;
        ServerCounts { requests: Some(requests), commits: Some(commits), rows: Some(rows) }
    }

    async fn transactions(&self) -> i64 {
        sqlx::query_scalar(TRANSACTIONS).fetch_one(self.world.pool()).await.unwrap()
    }

    /// The rows whose last writer is this transaction or a later one.
    async fn rows(&self, from: i64) -> i64 {
        let counts = TABLES.map(|table| {
            format!("(SELECT count(*) FROM plexsphere.{table} WHERE xmin::text::bigint >= $1)")
        });
        let count = format!("SELECT {}", counts.join(" + "));
        let count = sqlx::query_scalar(AssertSqlSafe(count)).bind(from);
        count.fetch_one(self.world.pool()).await.unwrap()
    }
}

/// Runs one write in its own transaction; returns the number of rows written.
pub(super) async fn commit(pool: &PgPool, write: Query<'_, Postgres, PgArguments>) -> u64 {
    let mut transaction = pool.begin().await.unwrap();
    let done = write.execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    done.rows_affected()
}

/// Calls `each` for every item, with at most `concurrency` calls in flight.
pub(super) async fn for_each_concurrent<T, F>(
    concurrency: usize,
    items: Vec<T>,
    each: impl Fn(T) -> F + Clone + Send + 'static,
) where
    T: Send + 'static,
    F: Future<Output = ()> + Send,
{
    let waiting = Arc::new(Mutex::new(items.into_iter()));
    let mut workers = JoinSet::new();
    for _ in 0..concurrency {
        let (waiting, each) = (Arc::clone(&waiting), each.clone());
        workers.spawn(async move {
            loop {
                let next = waiting.lock().unwrap().next();
                let Some(next) = next else { break };
                each(next).await;
            }
        });
    }
    workers.join_all().await;
}

/// The parts of a broker over these ports, as `broker-embed` wires them.
pub(super) fn parts(ports: Ports, config: BrokerConfig) -> Parts {
    Broker::configured(config).ports(ports).parts().unwrap()
}

/// The relay with this batch size.
pub(super) fn relay(ports: &Ports, batch: PageSize, sink: Arc<dyn EventSink>) -> Relay {
    let mut config = config("relay");
    config.deliveries_at_once = batch;
    parts(Ports { sink, ..ports.clone() }, config).relay
}

/// Runs a default broker until the returned set is dropped.
pub(super) fn run_broker(world: &Arc<RealWorld>) -> JoinSet<()> {
    run_replica("runner", &world.ports)
}

/// The same with the given name and ports.
pub(super) fn run_replica(name: &str, ports: &Ports) -> JoinSet<()> {
    let defaults = BrokerConfig::default();
    let mut config = config(name);
    config.poll_interval = defaults.poll_interval;
    config.workers_per_lane = defaults.workers_per_lane;
    config.deliveries_at_once = defaults.deliveries_at_once;
    let broker = Broker::configured(config).ports(ports.clone()).build_unchecked().unwrap();
    let mut running = JoinSet::new();
    running.spawn(async move { broker.run(std::future::pending()).await.unwrap() });
    running
}

/// Runs a cache until the returned set is dropped.
pub(super) fn run_cache(cache: &Arc<Cache>) -> JoinSet<()> {
    let cache = Arc::clone(cache);
    let mut running = JoinSet::new();
    running.spawn(async move { cache.run(std::future::pending()).await });
    running
}

/// Calls `each` for every change of these objects, sequentially, until the returned set is dropped.
pub(super) fn follow<F>(
    objects: Api<DynamicObject>,
    each: impl Fn(WatchEvent<DynamicObject>) -> F + Send + 'static,
) -> JoinSet<()>
where
    F: Future<Output = ()> + Send,
{
    let mut following = JoinSet::new();
    following.spawn(async move {
        let listed = objects.list(&ListParams::default().limit(1)).await.unwrap();
        let mut version = listed.metadata.resource_version.unwrap();
        loop {
            let parameters = WatchParams::default().timeout(290);
            let mut events = objects.watch(&parameters, &version).await.unwrap().boxed();
            while let Some(event) = events.next().await {
                let event = event.unwrap();
                if let WatchEvent::Added(it) | WatchEvent::Modified(it) | WatchEvent::Deleted(it) =
                    &event
                {
                    version = it.resource_version().unwrap();
                }
                each(event).await;
            }
        }
    });
    following
}
