//! The error class of every write operation whose connection fails: at the commit, within the transaction, or before
//! the first request. The contract suites test the retry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker_domain::TokenOrdinal;
use broker_pg::{PgMesh, PgStore, PgTokenIssuer, create_in};
use broker_ports::FailureClass::{Transient, Unknown};
use broker_ports::{
    Allowance, AuditAction, AuditEntry, AuditSink, Brake, BrakeRelease, ClaimEvents, ClaimRequest,
    ClaimTarget, Created, DeliveryFailure, Due, EventClaim, IssueRequest, Lane, Lease, LeaseEpoch,
    LostObject, Outbox, PassOutcome, PeerCommander, PermitRequest, PortError, PurgeRequest,
    Redrive, Replacement, Repository, Schedule, TokenIssuer, Write, WriteKind,
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
use crate::servers::pg::platform::world::World as PlatformWorld;
use crate::servers::pg::store::world::World as StoreWorld;

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
    "dead-letter",
    "redrive",
    "purge",
    "purge events",
    "scrub",
    "record",
    "issue first",
];

struct Operations {
    world: StoreWorld,
    platform: PlatformWorld,
    attempts: u128,
}

impl Operations {
    async fn new() -> Self {
        let database = Arc::new(crate::servers::pg::fresh_database().await);
        let platform = PlatformWorld::over(&database);
        Self { platform, world: StoreWorld::over(database), attempts: 0 }
    }

    /// Runs an operation through this pool, on data that no other attempt uses.
    async fn attempt(&mut self, operation: &str, pool: &PgPool) -> Result<(), PortError> {
        self.attempts += 1;
        let (number, by) = (self.attempts, attribution());
        let (stored, new) = (resource().numbered(number), resource().numbered(number + 1_000));
        for known in [&stored, &new] {
            self.world.register_references(&known.declaration()).await.unwrap();
        }
        let created = self.world.store.create(&stored.admitted()).await.unwrap();
        assert_eq!(created, Created::Stored);
        self.platform.issue(stored.id()).await.unwrap();
        let another = self.platform.issue(PlatformWorld::new_resource()).await.unwrap();
        let node = self.platform.mesh.enrol(another.plaintext.secret()).await.unwrap();

        let (store, tokens) = (PgStore::new(pool.clone()), PgTokenIssuer::new(pool.clone()));
        let (row, resource_id, new) = (stored.build(), stored.id(), new.admitted());
        let stamp = stamp(number + 90_000, 500);
        let lease = Lease::new(resource_id, LeaseEpoch::new(1), worker("holder"), second(0));
        let event = EventClaim::new(id(number * 1_000 + 1), worker("relay"), 1);
        let issue = |of| IssueRequest::new(of, TokenOrdinal::FIRST, LeaseEpoch::new(2), HOUR);
        let claim = |target| ClaimRequest::new(worker("claimer"), target, HOUR);
        match operation {
            "create_in" => {
                let not_begun = |_| PortError::transient("cannot begin the host's transaction");
                let mut host = pool.begin().await.map_err(not_begun)?;
                let _ = create_in(&mut host, &new).await?;
                let unanswered = |_| PortError::unknown("no response to the host's commit");
                host.commit().await.map_err(unanswered)
            }
            "replace" => {
                let replacement = Replacement::new(&row, new, stamp).unwrap();
                store.replace(&replacement).await.map(drop)
            }
            "permit" => {
                let (lost, within) = (LostObject::Xr(xr_uid(1)), Allowance::default());
                let request =
                    PermitRequest::new(lease, row.version(), cluster(3), lost, within, by);
                store.permit(&request).await.map(drop)
            }
            "issue" => tokens.issue(&issue(resource_id)).await.map(drop),
            "issue first" => tokens.issue(&issue(id(number + 1_000))).await.map(drop),
            "close" => tokens.close(resource_id).await,
            "retire" => PgMesh::new(pool.clone()).retire(node, None).await.map(drop),
            "create" => store.create(&new).await.map(drop),
            "write" => {
                let change = row.request_deletion(stamp).unwrap();
                let write = Write::by_caller(&change, &by);
                store.write(WriteKind::DeletionIntent, &write).await.map(drop)
            }
            "claim one" => store.claim(&claim(ClaimTarget::One(resource_id))).await.map(drop),
            "claim due" => {
                let due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
                store.claim(&claim(due)).await.map(drop)
            }
            "release" => {
                let outcome = PassOutcome::Succeeded { due_in: None };
                store.release(&lease, row.version(), &outcome).await.map(drop)
            }
            "schedule" => store.schedule(resource_id, Due::Now).await.map(drop),
            "pause" => store.set_paused(resource_id, true, &by).await.map(drop),
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
            "dead-letter" => store.dead_letter_event(&event, "no").await.map(drop),
            "redrive" => store.redrive_events(resource_id, Redrive::Retry, &by).await.map(drop),
            "purge" => {
                let request = PurgeRequest::new(Duration::ZERO, rows(10));
                store.purge_deleted(&request).await.map(drop)
            }
            "purge events" => store.purge_events(Duration::ZERO, rows(10)).await.map(drop),
            "scrub" => store.scrub_audit(resource_id, &by).await.map(drop),
            "record" => store.record(&AuditEntry::new(AuditAction::NodeDeregister, by)).await,
            other => panic!("unknown operation {other}"),
        }
    }
}

#[tokio::test]
async fn unanswered_commit_is_unknown() {
    let mut operations = Operations::new().await;
    for name in TRANSACTIONS.into_iter().chain(STATEMENTS) {
        for forwarded in [false, true] {
            let proxy = PgProxy::start(operations.world.database()).await;
            let transaction = TRANSACTIONS.contains(&name);
            let rule = proxy.script().first(move |request: &Request| match &*request.verb {
                "COMMIT" => true,
                verb => !transaction && verb != "PREPARE",
            });
            if forwarded {
                rule.before_response().cut();
            } else {
                rule.before_forward().cut();
            }
            let error = operations.attempt(name, &proxy.pool()).await.expect_err(name);
            assert_eq!(error.class(), Unknown, "{name}, forwarded: {forwarded}: {error:?}");
        }
    }
}

/// A transaction whose commit was not sent has no effect.
#[tokio::test]
async fn unanswered_statement_before_commit_is_transient() {
    let mut operations = Operations::new().await;
    for name in TRANSACTIONS {
        let mut lost = 0;
        loop {
            let proxy = PgProxy::start(operations.world.database()).await;
            let begun = AtomicBool::new(false);
            let within = move |request: &Request| match &*request.verb {
                "BEGIN" => {
                    begun.store(true, Ordering::SeqCst);
                    false
                }
                "PREPARE" | "COMMIT" => false,
                _ => begun.load(Ordering::SeqCst),
            };
            proxy.script().nth(lost + 1, within).before_response().cut();
            let Err(error) = operations.attempt(name, &proxy.pool()).await else { break };
            assert_eq!(error.class(), Transient, "{name}, statement {lost}: {error:?}");
            lost += 1;
        }
        assert!(lost > 0, "{name} has no statement within its transaction");
    }
}

#[tokio::test]
async fn unsent_request_is_transient() {
    let mut operations = Operations::new().await;
    let impatient_pool = |options: PgConnectOptions| {
        let pool = PgPoolOptions::new().max_connections(1);
        pool.acquire_timeout(Duration::from_millis(50)).connect_lazy_with(options)
    };
    let options = operations.world.database().options();
    let port = PgProxy::start(operations.world.database()).await.port();
    let (closed, exhausted) = (impatient_pool(options.clone().port(port)), impatient_pool(options));
    let _taken = until("the only connection", || async { exhausted.acquire().await.ok() }).await;
    for name in TRANSACTIONS.into_iter().chain(STATEMENTS) {
        for pool in [&closed, &exhausted] {
            let error = operations.attempt(name, pool).await.expect_err(name);
            assert_eq!(error.class(), Transient, "{name}: {error:?}");
        }
    }
}
