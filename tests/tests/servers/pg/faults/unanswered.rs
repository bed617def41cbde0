//! Every write operation without an answer: around its commit, within its transaction, and before
//! anything was sent. The ports' contracts test the retry after such a failure, with dropped calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker_domain::TokenOrdinal;
use broker_pg::{PgMesh, PgStore, PgTokenIssuer, create_in};
use broker_ports::FailureClass::{Transient, Unknown};
use broker_ports::{
    Allowance, AuditAction, AuditEntry, AuditSink, Brake, BrakeRelease, ClaimEvents, ClaimRequest,
    ClaimTarget, Created, DeliveryFailure, Due, EventClaim, IssueRequest, Lane, Lease, LeaseEpoch,
    Lost, Outbox, PassOutcome, PeerCommander, PermitRequest, PortError, PurgeRequest, Redrive,
    Replacement, Repository, Schedule, TokenIssuer, Write, WriteKind,
};
use broker_testkit::builders::{
    attribution, cluster, id, resource, rows, second, stamp, worker, xr_uid,
};
use broker_testkit::store::StoreUnderTest;
use broker_tests::proxy::Request;
use broker_tests::{PgProxy, until};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::HOUR;
use crate::servers::pg::neighbours::world::World as Mesh;
use crate::servers::pg::store::world::World;

/// The operations with an explicit commit. All others are one statement.
const TRANSACTIONS: [&str; 6] = ["create_in", "replace", "permit", "issue", "close", "retire"];

const STATEMENTS: [&str; 19] = [
    "create",
    "write",
    "claim one",
    "claim due",
    "release",
    "schedule",
    "pause",
    "set brake",
    "release brake",
    "claim events",
    "acknowledge",
    "delay",
    "set aside",
    "resume",
    "purge",
    "purge events",
    "scrub",
    "record",
    "issue first",
];

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

    /// Runs an operation through this pool, on data that no other attempt uses.
    async fn attempt(&mut self, operation: &str, pool: &PgPool) -> Result<(), PortError> {
        self.attempts += 1;
        let (number, by) = (self.attempts, attribution());
        let (stored, new) = (resource().numbered(number), resource().numbered(number + 1_000));
        for known in [&stored, &new] {
            self.world.know(&known.declaration()).await.unwrap();
        }
        let created = self.world.store.create(&stored.admitted()).await.unwrap();
        assert_eq!(created, Created::Stored);
        self.mesh.issue(stored.id()).await.unwrap();
        let another = self.mesh.issue(Mesh::new_resource()).await.unwrap();
        let node = self.mesh.mesh.enrol(another.plaintext.secret()).await.unwrap();

        let (store, tokens) = (PgStore::new(pool.clone()), PgTokenIssuer::new(pool.clone()));
        let (row, it, new) = (stored.build(), stored.id(), new.admitted());
        let stamp = stamp(number + 90_000, 500);
        let lease = Lease::new(it, LeaseEpoch::new(1), worker("holder"), second(0));
        let event = EventClaim::new(id(number * 1_000 + 1), worker("relay"), 1);
        let issue = |of| IssueRequest::new(of, TokenOrdinal::FIRST, LeaseEpoch::new(2), HOUR);
        let claim = |target| ClaimRequest::new(worker("claimer"), target, HOUR);
        match operation {
            "create_in" => {
                let mut host =
                    pool.begin().await.map_err(|_| PortError::transient("the host's"))?;
                let _ = create_in(&mut host, &new).await?;
                host.commit().await.map_err(|_| PortError::unknown("the host's own commit"))
            }
            "replace" => {
                let replacement = Replacement::new(&row, new, stamp).unwrap();
                store.replace(&replacement).await.map(drop)
            }
            "permit" => {
                let (lost, within) = (Lost::Xr(xr_uid(1)), Allowance::default());
                let request =
                    PermitRequest::new(lease, row.version(), cluster(3), lost, within, by);
                store.permit(&request).await.map(drop)
            }
            "issue" => tokens.issue(&issue(it)).await.map(drop),
            "issue first" => tokens.issue(&issue(id(number + 1_000))).await.map(drop),
            "close" => tokens.close(it).await,
            "retire" => PgMesh::new(pool.clone()).retire(node, None).await.map(drop),
            "create" => store.create(&new).await.map(drop),
            "write" => {
                let change = row.request_deletion(stamp).unwrap();
                let write = Write::by_caller(&change, &by);
                store.write(WriteKind::DeletionIntent, &write).await.map(drop)
            }
            "claim one" => store.claim(&claim(ClaimTarget::One(it))).await.map(drop),
            "claim due" => {
                let due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
                store.claim(&claim(due)).await.map(drop)
            }
            "release" => {
                let rests = PassOutcome::Succeeded { due_in: None };
                store.release(&lease, row.version(), &rests).await.map(drop)
            }
            "schedule" => store.schedule(it, Due::Now).await.map(drop),
            "pause" => store.set_paused(it, true, &by).await.map(drop),
            "set brake" => {
                let brake = Brake::new(6, 10, second(1));
                store.set_brake(&cluster(2), &brake, &by).await.map(drop)
            }
            "release brake" => {
                let release = BrakeRelease::new(cluster(1), None, Vec::new(), by);
                store.release_brake(&release).await.map(drop)
            }
            "claim events" => {
                let request = ClaimEvents::new(worker("another"), rows(100), HOUR);
                store.claim_events(&request).await.map(drop)
            }
            "acknowledge" => store.acknowledge_event(&event).await.map(drop),
            "delay" => store.delay_event(&event, HOUR, DeliveryFailure::Rejected).await.map(drop),
            "set aside" => store.dead_letter_event(&event, "no").await.map(drop),
            "resume" => store.redrive_events(it, Redrive::Retry, &by).await.map(drop),
            "purge" => {
                let request = PurgeRequest::new(Duration::ZERO, rows(10));
                store.purge_deleted(&request).await.map(drop)
            }
            "purge events" => store.purge_events(Duration::ZERO, rows(10)).await.map(drop),
            "scrub" => store.scrub_audit(it, &by).await.map(drop),
            "record" => store.record(&AuditEntry::new(AuditAction::NodeDeregister, by)).await,
            other => panic!("there is no {other}"),
        }
    }
}

#[tokio::test]
async fn unanswered_commit_is_unknown() {
    let mut scene = Scene::new().await;
    for name in TRANSACTIONS.into_iter().chain(STATEMENTS) {
        for forwarded in [false, true] {
            let proxy = PgProxy::to(scene.world.database()).await;
            let transaction = TRANSACTIONS.contains(&name);
            let rule = proxy.script().first(move |request: &Request| match &*request.verb {
                "COMMIT" => true,
                verb => !transaction && verb != "PREPARE",
            });
            if forwarded {
                rule.before_answer().cut();
            } else {
                rule.before_forward().cut();
            }
            let error = scene.attempt(name, &proxy.pool()).await.expect_err(name);
            assert_eq!(error.class(), Unknown, "{name}, forwarded: {forwarded}: {error:?}");
        }
    }
}

/// Without a sent commit, a transaction cannot have happened, whatever was answered before.
#[tokio::test]
async fn unanswered_statement_before_commit_is_transient() {
    let mut scene = Scene::new().await;
    for name in TRANSACTIONS {
        let mut cut = 0;
        loop {
            let proxy = PgProxy::to(scene.world.database()).await;
            let begun = AtomicBool::new(false);
            let within = move |request: &Request| match &*request.verb {
                "BEGIN" => {
                    begun.store(true, Ordering::SeqCst);
                    false
                }
                "PREPARE" | "COMMIT" => false,
                _ => begun.load(Ordering::SeqCst),
            };
            proxy.script().nth(cut + 1, within).before_answer().cut();
            let Err(error) = scene.attempt(name, &proxy.pool()).await else { break };
            assert_eq!(error.class(), Transient, "{name}, statement {cut}: {error:?}");
            cut += 1;
        }
        assert!(cut > 0, "{name} has no statement");
    }
}

#[tokio::test]
async fn unsent_request_is_transient() {
    let mut scene = Scene::new().await;
    let hurried = |options: PgConnectOptions| {
        let pool = PgPoolOptions::new().max_connections(1);
        pool.acquire_timeout(Duration::from_millis(50)).connect_lazy_with(options)
    };
    let options = scene.world.database().options();
    let port = PgProxy::to(scene.world.database()).await.port();
    let (closed, exhausted) = (hurried(options.clone().port(port)), hurried(options));
    let _taken = until("the only connection", || async { exhausted.acquire().await.ok() }).await;
    for name in TRANSACTIONS.into_iter().chain(STATEMENTS) {
        for pool in [&closed, &exhausted] {
            let error = scene.attempt(name, pool).await.expect_err(name);
            assert_eq!(error.class(), Transient, "{name}: {error:?}");
        }
    }
}
