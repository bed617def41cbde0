//! Every operation that writes, with an answer that never comes: around its commit, within its transaction, and before
//! anything was sent. What an operation leaves behind when its caller asks again is shown with the ports' contracts, by
//! calls that are dropped half way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker_domain::TokenOrdinal;
use broker_pg::{PgMesh, PgStore, PgTokenIssuer, create_in};
use broker_ports::FailureClass::{Transient, Unknown};
use broker_ports::{
    Allowance, AuditAction, AuditEntry, AuditSink, Brake, BrakeRelease, ClaimEvents, ClaimRequest,
    ClaimTarget, Created, DeliveryFailure, Due, EventClaim, IssueRequest, Lane, Lease, LeaseEpoch,
    Lost, NodeId, Outbox, PassOutcome, PeerCommander, PermitRequest, PortError, PurgeRequest,
    Replacement, Repository, Resume, Schedule, TokenIssuer, Write, WriteKind,
};
use broker_testkit::builders::{
    ResourceBuilder, attribution, cluster, id, resource, rows, second, stamp, worker, xr_uid,
};
use broker_testkit::store::StoreUnderTest;
use broker_tests::proxy::Request;
use broker_tests::{PgProxy, until};
use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::HOUR;
use crate::servers::pg::neighbours::world::World as Mesh;
use crate::servers::pg::store::world::World;

/// The adapters of one attempt, and what they work on: nobody else did before.
struct Attempt {
    pool: PgPool,
    store: PgStore,
    tokens: PgTokenIssuer,
    mesh: PgMesh,
    stored: ResourceBuilder,
    node: NodeId,
}

impl Attempt {
    fn number(&self) -> u128 {
        self.stored.id().as_uuid().as_u128()
    }

    fn new_one(&self) -> ResourceBuilder {
        resource().numbered(self.number() + 1_000)
    }

    fn lease(&self) -> Lease {
        Lease::new(self.stored.id(), LeaseEpoch::new(1), worker("holder"), second(0))
    }

    fn event(&self) -> EventClaim {
        EventClaim::new(id(self.number() * 1_000 + 1), worker("relay"), 1)
    }

    async fn issue(&self, of: u128) -> Result<(), PortError> {
        let request = IssueRequest::new(id(of), TokenOrdinal::FIRST, LeaseEpoch::new(2), HOUR);
        self.tokens.issue(&request).await.map(drop)
    }

    async fn create_and_commit(&self) -> Result<(), PortError> {
        let mut host = self.pool.begin().await.map_err(|_| PortError::transient("the host's"))?;
        let _ = create_in(&mut host, &self.new_one().admitted()).await?;
        host.commit().await.map_err(|_| PortError::unknown("the host's own commit"))
    }

    async fn replace(&self) -> Result<(), PortError> {
        let new = self.new_one().admitted();
        let new = Replacement::new(&self.stored.build(), new, stamp(self.number() + 90_000, 500));
        self.store.replace(&new.unwrap()).await.map(drop)
    }

    async fn write(&self) -> Result<(), PortError> {
        let row = self.stored.build();
        let change = row.request_deletion(stamp(self.number() + 90_000, 500)).unwrap();
        let by = attribution();
        let write = Write::by_caller(&change, &by);
        self.store.write(WriteKind::DeletionIntent, &write).await.map(drop)
    }

    async fn claim(&self, target: ClaimTarget) -> Result<(), PortError> {
        let request = ClaimRequest::new(worker("claimer"), target, HOUR);
        self.store.claim(&request).await.map(drop)
    }

    async fn permit(&self) -> Result<(), PortError> {
        let version = self.stored.build().version();
        let (lost, by) = (Lost::Xr(xr_uid(1)), attribution());
        let lease = self.lease();
        let request =
            PermitRequest::new(lease, version, cluster(3), lost, Allowance::default(), by);
        self.store.permit(&request).await.map(drop)
    }
}

type Operation = (&'static str, fn(&Attempt) -> BoxFuture<'_, Result<(), PortError>>);

/// Those that commit by a word of their own. All others are one statement.
const TRANSACTIONS: [Operation; 6] = [
    ("create_in", |it| it.create_and_commit().boxed()),
    ("replace", |it| it.replace().boxed()),
    ("permit", |it| it.permit().boxed()),
    ("issue", |it| it.issue(it.number()).boxed()),
    ("close", |it| it.tokens.close(it.stored.id()).boxed()),
    ("retire", |it| async { it.mesh.retire(it.node, None).await.map(drop) }.boxed()),
];

const STATEMENTS: [Operation; 19] = [
    ("create", |it| async { it.store.create(&it.new_one().admitted()).await.map(drop) }.boxed()),
    ("write", |it| it.write().boxed()),
    ("claim one", |it| it.claim(ClaimTarget::One(it.stored.id())).boxed()),
    ("claim due", |it| it.claim(ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) }).boxed()),
    ("release", |it| {
        let rests = PassOutcome::Succeeded { due_in: None };
        async move {
            let version = it.stored.build().version();
            it.store.release(&it.lease(), version, &rests).await.map(drop)
        }
        .boxed()
    }),
    ("schedule", |it| {
        async { it.store.schedule(it.stored.id(), Due::Now).await.map(drop) }.boxed()
    }),
    ("pause", |it| {
        async { it.store.set_paused(it.stored.id(), true, &attribution()).await.map(drop) }.boxed()
    }),
    ("set brake", |it| {
        let brake = Brake::new(6, 10, second(1));
        async move { it.store.set_brake(&cluster(2), &brake, &attribution()).await.map(drop) }
            .boxed()
    }),
    ("release brake", |it| {
        let release = BrakeRelease::new(cluster(1), None, Vec::new(), attribution());
        async move { it.store.release_brake(&release).await.map(drop) }.boxed()
    }),
    ("claim events", |it| {
        let request = ClaimEvents::new(worker("another"), rows(100), HOUR);
        async move { it.store.claim_events(&request).await.map(drop) }.boxed()
    }),
    ("acknowledge event", |it| {
        async { it.store.acknowledge_event(&it.event()).await.map(drop) }.boxed()
    }),
    ("delay event", |it| {
        let why = DeliveryFailure::Rejected;
        async move { it.store.delay_event(&it.event(), HOUR, why).await.map(drop) }.boxed()
    }),
    ("set aside event", |it| {
        async { it.store.set_aside_event(&it.event(), "no").await.map(drop) }.boxed()
    }),
    ("resume events", |it| {
        let (of, by) = (it.stored.id(), attribution());
        async move { it.store.resume_events(of, Resume::Retry, &by).await.map(drop) }.boxed()
    }),
    ("purge deleted", |it| {
        let request = PurgeRequest::new(Duration::ZERO, rows(10));
        async move { it.store.purge_deleted(&request).await.map(drop) }.boxed()
    }),
    ("purge events", |it| {
        async { it.store.purge_events(Duration::ZERO, rows(10)).await.map(drop) }.boxed()
    }),
    ("scrub audit", |it| {
        async { it.store.scrub_audit(it.stored.id(), &attribution()).await.map(drop) }.boxed()
    }),
    ("record", |it| {
        let entry = AuditEntry::new(AuditAction::NodeDeregister, attribution());
        async move { it.store.record(&entry).await }.boxed()
    }),
    ("issue first", |it| it.issue(it.number() + 1_000).boxed()),
];

/// One database for all attempts.
struct Scene {
    world: World,
    mesh: Mesh,
    attempts: u128,
}

impl Scene {
    async fn new() -> Self {
        let database = Arc::new(crate::servers::pg::fresh_database().await);
        Self { mesh: Mesh::over(&database), world: World::over(database), attempts: 0 }
    }

    async fn attempt(&mut self, pool: PgPool) -> Attempt {
        self.attempts += 1;
        let stored = resource().numbered(self.attempts);
        for known in [&stored, &resource().numbered(self.attempts + 1_000)] {
            self.world.know(&known.declaration()).await.unwrap();
        }
        let created = self.world.store.create(&stored.admitted()).await.unwrap();
        assert_eq!(created, Created::Stored);
        self.mesh.issue(stored.id()).await.unwrap();
        let another = self.mesh.issue(Mesh::new_resource()).await.unwrap();
        let node = self.mesh.mesh.enrol(another.plaintext.secret()).await.unwrap();
        let (store, tokens) = (PgStore::new(pool.clone()), PgTokenIssuer::new(pool.clone()));
        Attempt { store, tokens, mesh: PgMesh::new(pool.clone()), pool, stored, node }
    }
}

#[tokio::test]
async fn commit_that_is_not_answered_is_unknown() {
    let mut scene = Scene::new().await;
    let transactions = TRANSACTIONS.map(|operation| (operation, true));
    let statements = STATEMENTS.map(|operation| (operation, false));
    for ((name, run), transaction) in transactions.into_iter().chain(statements) {
        for forwarded in [false, true] {
            let proxy = PgProxy::to(scene.world.database()).await;
            let commits = move |request: &Request| match request.verb.as_str() {
                "COMMIT" => true,
                verb => !transaction && verb != "PREPARE",
            };
            let rule = proxy.script().first(commits);
            let at = if forwarded { rule.before_answer() } else { rule.before_forward() };
            at.cut();
            let attempt = scene.attempt(proxy.pool()).await;
            let error = run(&attempt).await.expect_err(name);
            assert_eq!(error.class(), Unknown, "{name}, forwarded: {forwarded}: {error:?}");
        }
    }
}

/// A transaction whose commit was not sent yet cannot have happened, whatever was answered before.
#[tokio::test]
async fn statement_within_a_transaction_that_is_not_answered_is_transient() {
    let mut scene = Scene::new().await;
    for (name, run) in TRANSACTIONS {
        let mut cut = 0;
        loop {
            let proxy = PgProxy::to(scene.world.database()).await;
            let begun = AtomicBool::new(false);
            let within = move |request: &Request| match request.verb.as_str() {
                "BEGIN" => {
                    begun.store(true, Ordering::SeqCst);
                    false
                }
                "PREPARE" | "COMMIT" => false,
                _ => begun.load(Ordering::SeqCst),
            };
            proxy.script().nth(cut + 1, within).before_answer().cut();
            let attempt = scene.attempt(proxy.pool()).await;
            let Err(error) = run(&attempt).await else { break };
            assert_eq!(error.class(), Transient, "{name}, statement {cut}: {error:?}");
            cut += 1;
        }
        assert!(cut > 0, "{name} has no statement");
    }
}

#[tokio::test]
async fn what_never_reached_the_server_is_transient() {
    let mut scene = Scene::new().await;
    let hurried = |options: PgConnectOptions| {
        let pool = PgPoolOptions::new().max_connections(1);
        pool.acquire_timeout(Duration::from_millis(50)).connect_lazy_with(options)
    };
    let options = scene.world.database().options();
    let port = PgProxy::to(scene.world.database()).await.port();
    let (closed, exhausted) = (hurried(options.clone().port(port)), hurried(options));
    let _taken = until("the only connection", || async { exhausted.acquire().await.ok() }).await;
    for (name, run) in TRANSACTIONS.into_iter().chain(STATEMENTS) {
        for pool in [&closed, &exhausted] {
            let attempt = scene.attempt(pool.clone()).await;
            let error = run(&attempt).await.expect_err(name);
            assert_eq!(error.class(), Transient, "{name}: {error:?}");
        }
    }
}
