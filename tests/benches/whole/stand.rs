//! What works are measured on: a world on real servers, somebody who calls those servers without the broker, and
//! counts of what either of them does.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker_app::{LogEventSink, Relay, RelayConfig, Runner, RunnerConfig, Sweeper};
use broker_ports::testing::builders::{rows, worker};
use broker_ports::{EventSink, ReconcilerPorts, RelayPorts};
use broker_tests::TestCluster;
use broker_tests::cluster::Mark;
use broker_tests::real::{PATIENCE, RealWorld, reconciler_config};
use kube::Client;
use serde::Serialize;
use sqlx::{AssertSqlSafe, Executor};
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

/// What was asked of the servers meanwhile.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    /// Of the API server, by its own log.
    requests: usize,
    /// Transactions that wrote.
    commits: i64,
    /// Rows that they wrote, each once however often.
    rows: i64,
}

/// Every table that anybody here writes to.
const TABLES: [&str; 9] = [
    "provisioned_resources",
    "provisioned_resource_schedule",
    "provisioned_resource_outbox_token",
    "provisioned_resource_audit",
    "provisioning_turns",
    "outbox_events",
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
        let bare = cluster.identity_in(&bare_user, xtask::servers::MASTERS).await;
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
        Counted { requests, commits, rows: self.rows(since.transactions).await }
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

/// As many events as the shipped relay claims at a time.
pub(super) const BATCH: u16 = 20;

/// The relay as it is shipped.
pub(super) fn relay(world: &RealWorld, sink: Arc<dyn EventSink>) -> Relay {
    let ports = RelayPorts { outbox: Arc::clone(&world.ports.outbox), sink };
    let config = RelayConfig {
        worker: worker("relay"),
        batch: rows(BATCH),
        claim_for: Duration::from_mins(1),
        store_deadline: PATIENCE,
        deliver_deadline: PATIENCE,
        most_attempts: 3,
        source: "/provisioning-broker".to_owned(),
    };
    Relay::new(ports, config)
}

/// The runner as it is shipped, and the cache that hints to it, until the answer is dropped.
pub(super) fn run_broker(world: &Arc<RealWorld>) -> JoinSet<()> {
    let ports = ReconcilerPorts::from(&world.ports);
    let sweeper = Sweeper::new(ports, reconciler_config("runner"));
    let config = RunnerConfig {
        sweep_interval: Duration::from_secs(30),
        poll_interval: Duration::from_secs(1),
        workers_per_lane: 8,
        strict: false,
        stop_within: Duration::from_secs(10),
        retention: None,
    };
    let relay = relay(world, Arc::new(LogEventSink));
    let runner = Runner::new(world.reconciler.clone(), sweeper, relay, config).unwrap();
    let mut running = world.run_cache();
    running.spawn(async move { runner.run(std::future::pending()).await.unwrap() });
    running
}
