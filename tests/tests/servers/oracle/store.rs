//! The store: random lives of a few resources, with several workers, stale callers, relays and purges.

mod outbox;
mod resources;
mod schedule;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use broker_domain::{Phase, ProvisionedResource, Snapshot, Stamp};
use broker_ports::{
    AuditAction, AuditEntry, ClaimTarget, EventClaim, Lane, Lease, ListQuery, PortError,
    PurgeRequest, SweepQuery,
};
use broker_testkit::builders::{
    ResourceBuilder, attribution, declaration, id, resource, rows, second, stamp,
};
use broker_testkit::store::StoreUnderTest;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use time::OffsetDateTime;

#[path = "../../../../broker-ports/testkit/tests/common/in_memory.rs"]
mod in_memory;

use in_memory::InMemory;

use super::{compare, histories};
use crate::servers::pg::{self, fresh_database};

/// How many calls a history has.
const STEPS: usize = 60;
/// How many resources it is about.
const RESOURCES: u128 = 3;
/// How long a worker holds a resource, and a relay an event: longer than a whole history takes, so that it is over
/// when the history says so and never by itself.
const LEASE: Duration = Duration::from_mins(10);
/// Longer than any back-off, which is random.
const LEFT_ALONE: Duration = Duration::from_hours(2);

#[tokio::test]
async fn a_store_in_memory_answers_as_postgres_does() {
    let database = Arc::new(fresh_database().await);
    let seeds = histories(25, 1_000);
    let mut calls = 0;
    for seed in seeds.clone() {
        let memory = Player::new(&InMemory::fresh(), seed).play().await;
        let real = pg::store::world::World::emptied(&database).await;
        let real = Player::new(&real, seed).play().await;
        compare(seed, &memory, &real);
        calls += memory.len();
    }
    println!("proof: {} histories of a store, {calls} answers", seeds.end);
}

/// Somebody who plays a history on one store.
struct Player<'w> {
    world: &'w dyn StoreUnderTest,
    random: StdRng,
    /// Resources as somebody remembers them, perhaps no longer as they are.
    known: BTreeMap<u128, ProvisionedResource>,
    /// Leases that somebody has or had.
    leases: BTreeMap<u128, Lease>,
    claims: Vec<EventClaim>,
    /// Makes every id its own.
    step: u128,
    told: Vec<String>,
}

impl<'w> Player<'w> {
    fn new(world: &'w dyn StoreUnderTest, seed: u64) -> Self {
        Self {
            world,
            random: StdRng::seed_from_u64(seed),
            known: BTreeMap::new(),
            leases: BTreeMap::new(),
            claims: Vec::new(),
            step: 0,
            told: Vec::new(),
        }
    }

    async fn play(mut self) -> Vec<String> {
        for number in 1..=RESOURCES {
            for wording in 0..2 {
                let wanted = declared(number, wording).declaration();
                self.world.know(&wanted).await.unwrap();
            }
        }
        for step in 1..=STEPS {
            self.step = step as u128;
            self.call().await;
            // Whatever happened before happened earlier, in both.
            self.world.advance(Duration::from_secs(1)).await.unwrap();
        }
        for number in 1..=RESOURCES {
            self.read(number).await;
            self.place(number).await;
            self.history(number).await;
        }
        self.look().await;
        self.told
    }

    /// One call, as the dice say.
    async fn call(&mut self) {
        let number = self.random.random_range(1..=RESOURCES);
        match self.random.random_range(0..34) {
            0..3 => self.create(number).await,
            3..6 => self.read(number).await,
            6..13 => self.write(number).await,
            13 => self.place(number).await,
            14..17 => self.claim(ClaimTarget::One(id(number))).await,
            17 => {
                let lane = if self.random.random() { Lane::Converge } else { Lane::Teardown };
                let limit = rows(self.random.random_range(1..4));
                self.claim(ClaimTarget::Due { lane, limit }).await;
            }
            18..20 => self.release(number).await,
            20 => self.steer(number).await,
            21..24 => self.claim_events().await,
            24..26 => self.settle_event().await,
            26 => self.resume(number).await,
            27 => self.purge().await,
            28 => self.look().await,
            29 => self.history(number).await,
            30 => self.note(number).await,
            31..33 => self.replace(number).await,
            _ => {
                let by = if self.random.random() { LEASE } else { LEFT_ALONE * 2 };
                self.world.advance(by).await.unwrap();
                self.tell("time passes", Ok(by));
            }
        }
    }

    fn tell<T: Debug>(&mut self, what: &str, answer: Result<T, PortError>) {
        let answer = match answer {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => {
                let reason = error.domain().map(broker_domain::Error::reason);
                format!("{} {reason:?}", error.class())
            }
        };
        let step = self.step;
        self.told.push(format!("{step}: {what}: {answer}"));
    }

    /// A stamp far ahead of every store's clock, so that no store's own time gets into a resource.
    fn stamp(&self) -> Stamp {
        stamp(1_000_000 + self.step, far_ahead(self.step))
    }

    fn at(&self) -> OffsetDateTime {
        second(far_ahead(self.step))
    }

    async fn purge(&mut self) {
        let request = PurgeRequest::new(LEASE, rows(10));
        let purged = self.world.repository().purge_deleted(&request).await;
        self.tell("purge", purged);
        let purged = self.world.outbox().purge_events(LEASE, rows(10)).await;
        self.tell("purge events", purged);
    }

    /// Pages and counts.
    async fn look(&mut self) {
        let mut query = ListQuery::new(rows(self.random.random_range(1..4)));
        if self.random.random() {
            query = query.in_phase(Phase::Ready);
        }
        let page = self.world.repository().list(&query).await;
        let page = page.map(|it| (it.resources.iter().map(words).collect::<Vec<_>>(), it.next));
        self.tell("list", page);
        let page = self.world.repository().sweep_page(&SweepQuery::new(rows(2))).await;
        let page = page.map(|it| {
            let now = it.now;
            let rows = it.rows.into_iter().map(|row| {
                let due = row.due_at.map(|due| due <= now);
                let held = row.lease_until.is_some_and(|until| until > now);
                let known = (row.id, row.version, row.phase, row.token_closed, row.paused);
                (known, row.references_digest, row.parameters, due, held)
            });
            (rows.collect::<Vec<_>>(), it.next)
        });
        self.tell("sweep", page);
        let backlog = self.world.outbox().backlog().await;
        let words = backlog.map(|it| (it.depth, it.set_aside, it.oldest.is_some()));
        self.tell("backlog", words);
    }

    async fn history(&mut self, number: u128) {
        let lines = self.world.repository().history(id(number)).await;
        let lines = lines.map(|lines| {
            let words = lines.into_iter().map(|line| (line.version, line.epoch, line.entry));
            words.collect::<Vec<_>>()
        });
        self.tell(&format!("the history of {number}"), lines);
    }

    async fn note(&mut self, number: u128) {
        if self.random.random() {
            let entry = AuditEntry::new(AuditAction::TokenIssue, attribution()).about(id(number));
            let noted = self.world.audit().record(&entry).await;
            self.tell("note", noted);
        } else {
            let scrubbed = self.world.repository().scrub_audit(id(number), &attribution()).await;
            self.tell(&format!("scrub {number}"), scrubbed);
        }
    }
}

fn far_ahead(step: u128) -> i64 {
    3_000_000_000 + i64::try_from(step).unwrap()
}

/// A resource's declaration, worded in one way or another under the same request id.
fn declared(number: u128, wording: u128) -> ResourceBuilder {
    let declaration = declaration().for_resource(10 + wording);
    let builder = resource().numbered(number).declared_as(declaration);
    let builder = builder.requested_as(&format!("request-{number}"));
    if number.is_multiple_of(2) { builder } else { builder.standalone() }
}

/// A resource without the store's own time.
fn words(row: &ProvisionedResource) -> String {
    format!("{:?}", Snapshot { updated_at: OffsetDateTime::UNIX_EPOCH, ..row.snapshot() })
}
