//! What works are measured on: a world on real servers, somebody who calls those servers without the broker, and
//! counts of what either of them does.

use std::future::Future;
use std::sync::{Arc, Mutex};

use broker_app::{BrokerConfig, Relay};
use broker_embed::{Broker, Parts};
use broker_kube::cache::Cache;
use broker_ports::{EventSink, PageSize, Ports};
use broker_tests::TestCluster;
use broker_tests::cluster::Mark;
use broker_tests::real::{RealWorld, config};
use futures::StreamExt as _;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, PgPool, Postgres};
use tokio::task::JoinSet;

use super::lab::Way;

/// A world, and who does without the broker in it.
pub(super) struct Stand {
    pub(super) world: Arc<RealWorld>,
    /// The same driver as the broker's.
    pub(super) bare: Client,
    /// The name by which the API server knows that one.
    bare_user: String,
}

/// Where requests and writes are counted from.
pub(super) struct Since {
    requests: Mark,
    transactions: i64,
}

/// What was asked of the servers meanwhile; `None` where nobody could count it.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    /// Of the API server, by its own log, or by whoever plays one.
    requests: Option<usize>,
    /// Transactions that wrote.
    commits: Option<i64>,
    /// Rows that they wrote, each once however often.
    rows: Option<i64>,
}

impl Counted {
    /// Where there are no servers.
    pub(super) const NOT: Self = Self { requests: None, commits: None, rows: None };

    /// The same, with the requests that a played API server was sent.
    pub(super) fn of_played(self, requests: usize) -> Self {
        Self { requests: Some(requests), ..self }
    }

    /// Whether it was counted, and nobody asked for anything or wrote anything.
    pub(super) fn is_nothing(&self) -> bool {
        let Self { requests, commits, rows } = self;
        (*requests, *commits, *rows) == (Some(0), Some(0), Some(0))
    }
}

/// Every table that anybody here writes to.
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

/// Every transaction that writes takes the next number, and nobody else writes on these servers.
const TRANSACTIONS: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";

impl Stand {
    /// A world with kinds of its own.
    pub(super) async fn new() -> Self {
        let cluster = TestCluster::shared().await;
        let world = Arc::new(RealWorld::alone(&cluster).await);
        let bare_user = format!("bare-{}", world.project);
        let bare = cluster.identity_in(&bare_user, broker_test_servers::servers::MASTERS).await;
        for table in TABLES {
            // It would be counted, and comes when it likes: works vacuum before they begin.
            let alone = format!("ALTER TABLE plexsphere.{table} SET (autovacuum_enabled = false)");
            world.pool().execute(AssertSqlSafe(alone)).await.unwrap();
        }
        Self { world, bare, bare_user }
    }

    pub(super) async fn mark(&self) -> Since {
        let transactions = self.transactions().await;
        Since { requests: self.world.cluster.audit_log().mark(), transactions }
    }

    pub(super) async fn since(&self, since: &Since, way: Way) -> Counted {
        let commits = self.transactions().await - since.transactions;
        let user = match way {
            Way::Ours => &self.world.user,
            Way::Floor | Way::Naive => &self.bare_user,
        };
        let asked = self.world.cluster.audit_log().since(since.requests, user).await;
        // A watch goes on and on, and is taken up again when it likes.
        let requests = asked.iter().filter(|request| request.verb != "watch").count();
        let rows = self.rows(since.transactions).await;
        Counted { requests: Some(requests), commits: Some(commits), rows: Some(rows) }
    }

    async fn transactions(&self) -> i64 {
        sqlx::query_scalar(TRANSACTIONS).fetch_one(self.world.pool()).await.unwrap()
    }

    /// The rows that transactions from this one on left behind.
    async fn rows(&self, from: i64) -> i64 {
        let counts = TABLES.map(|table| {
            format!("(SELECT count(*) FROM plexsphere.{table} WHERE xmin::text::bigint >= $1)")
        });
        let count = format!("SELECT {}", counts.join(" + "));
        let count = sqlx::query_scalar(AssertSqlSafe(count)).bind(from);
        count.fetch_one(self.world.pool()).await.unwrap()
    }
}

/// Writes in a transaction of its own, as the naive way always does. Answers how many rows were written.
pub(super) async fn commit(pool: &PgPool, write: Query<'_, Postgres, PgArguments>) -> u64 {
    let mut transaction = pool.begin().await.unwrap();
    let done = write.execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    done.rows_affected()
}

/// Does something with each of these, so many at a time.
pub(super) async fn at_once<T, F>(
    concurrency: usize,
    them: Vec<T>,
    each: impl Fn(T) -> F + Clone + Send + 'static,
) where
    T: Send + 'static,
    F: Future<Output = ()> + Send,
{
    let waiting = Arc::new(Mutex::new(them.into_iter()));
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

/// The parts of a broker over these ports, as the front door wires them.
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

/// The same over adapters of its own.
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

/// Runs a cache until the answer is dropped.
pub(super) fn run_cache(cache: &Arc<Cache>) -> JoinSet<()> {
    let cache = Arc::clone(cache);
    let mut running = JoinSet::new();
    running.spawn(async move { cache.run(std::future::pending()).await });
    running
}

/// Does something with each change of these objects, one after the other, until the answer is dropped.
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
