//! The store: random lives of a few resources, with several workers, stale callers, relays and purges.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use broker_domain::{
    Change, FailureReason, Phase, ProvisionedResource, ReferencesDigest, Snapshot, Stamp,
    TokenOrdinal,
};
use broker_ports::testing::builders::{
    ResourceBuilder, attribution, cluster, composed, declaration, id, resource, rows, second,
    stamp, worker,
};
use broker_ports::testing::store::{InMemory, StoreUnderTest};
use broker_ports::{
    AuditAction, AuditEntry, Brake, ClaimEvents, ClaimRequest, ClaimTarget, Created, Due,
    EventClaim, Lane, Lease, ListQuery, PassOutcome, PortError, PurgeRequest, Resume, SweepQuery,
    Write, WriteKind, Written,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use time::OffsetDateTime;

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
        match self.random.random_range(0..32) {
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

    async fn create(&mut self, number: u128) {
        let wording = self.random.random_range(0..3).min(1);
        let admitted = declared(number, wording).admitted();
        let created = self.world.repository().create(&admitted).await;
        let created = created.map(|created| match created {
            Created::Stored => "stored".to_owned(),
            Created::Replayed(first) => format!("replayed {}", words(&first)),
            Created::Conflict => "conflict".to_owned(),
        });
        self.tell(&format!("create {number} as {wording}"), created);
    }

    /// What is read is what somebody remembers from then on.
    async fn read(&mut self, number: u128) {
        let found = self.world.repository().get_by_id(id(number)).await;
        if let Ok(Some(row)) = &found {
            self.known.insert(number, row.clone());
        }
        self.tell(&format!("get {number}"), found.map(|row| row.as_ref().map(words)));
    }

    /// A write from what somebody remembers, by a caller or by a worker with the lease that it has or had.
    async fn write(&mut self, number: u128) {
        let Some(known) = self.known.get(&number).cloned() else { return self.read(number).await };
        let (kind, change) = self.change(&known);
        let what = format!("{kind:?} of {number} at {}", known.version());
        let change = match change {
            Ok(Some(change)) => change,
            Ok(None) => return self.tell(&what, Ok("nothing to do")),
            Err(error) => return self.tell::<()>(&what, Err(error.into())),
        };
        let epoch = self.leases.get(&number).map(|lease| lease.epoch);
        let by = attribution();
        let write = match epoch.filter(|_| self.random.random_range(0..4) > 0) {
            Some(epoch) => Write::by_worker(&change, epoch, &by),
            None => Write::by_caller(&change, &by),
        };
        let repository = self.world.repository();
        let written = match kind {
            WriteKind::Phase => repository.update_phase(&write).await,
            WriteKind::Token => repository.record_token(&write).await,
            WriteKind::Closed => repository.record_closed(&write).await,
            WriteKind::Substrate => repository.record_substrate(&write).await,
            WriteKind::DeletionIntent => repository.record_deletion_intent(&write).await,
        };
        if matches!(written, Ok(Written::Committed)) && self.random.random_range(0..4) > 0 {
            self.known.insert(number, change.into_resource());
        }
        self.tell(&what, written);
    }

    fn change(
        &mut self,
        known: &ProvisionedResource,
    ) -> (WriteKind, Result<Option<Change>, broker_domain::Error>) {
        let (at, stamp) = (self.at(), self.stamp());
        match self.random.random_range(0..10) {
            0 => (WriteKind::DeletionIntent, Ok(known.request_deletion(stamp))),
            1 => {
                let token = id(2_000_000 + self.step);
                (WriteKind::Token, known.record_token(token, TokenOrdinal::FIRST, at).map(Some))
            }
            2 => (WriteKind::Closed, known.record_closed(at)),
            3 | 4 => {
                let seen = known.substrate().clone();
                let seen = seen.about_to_apply(cluster(1), composed("config"));
                let part = composed(&format!("part-{}", self.random.random_range(0..3)));
                let seen = if known.phase().is_teardown() {
                    let gone = seen.composed().iter().cloned().chain([composed("config")]);
                    seen.clone().without(&gone.collect())
                } else {
                    seen.observed([part], ReferencesDigest::new([1; 32]))
                };
                (WriteKind::Substrate, known.record_substrate(seen, at))
            }
            5 if !known.phase().is_teardown() => {
                let reason = FailureReason::from_message("out of quota");
                (WriteKind::Phase, known.fail(reason, stamp))
            }
            _ => {
                let phases = [
                    Phase::Pending,
                    Phase::Provisioning,
                    Phase::Ready,
                    Phase::Deprovisioning,
                    Phase::Deleted,
                ];
                let legal = phases.into_iter().filter(|to| known.phase().can_become(*to));
                let legal: Vec<_> = legal.filter(|to| *to != known.phase()).collect();
                let Some(count) = std::num::NonZeroUsize::new(legal.len()) else {
                    return (WriteKind::Phase, Ok(None));
                };
                let to = legal[self.random.random_range(0..count.get())];
                (WriteKind::Phase, known.advance(to, stamp))
            }
        }
    }

    async fn claim(&mut self, target: ClaimTarget) {
        let name = worker(if self.random.random() { "one" } else { "other" });
        let claimed = self.world.schedule().claim(&ClaimRequest::new(name, target, LEASE)).await;
        for lease in claimed.iter().flatten() {
            self.leases.insert(lease.resource.as_uuid().as_u128(), lease.clone());
        }
        let claimed = claimed.map(|leases| {
            let words = |it: &Lease| (it.resource, it.epoch, it.attempts, it.takeover);
            leases.iter().map(words).collect::<Vec<_>>()
        });
        self.tell(&format!("claim {target:?}"), claimed);
    }

    async fn release(&mut self, number: u128) {
        let (Some(lease), Some(known)) = (self.leases.get(&number), self.known.get(&number)) else {
            return self.place(number).await;
        };
        let outcome = match self.random.random_range(0..4) {
            0 => PassOutcome::Succeeded { due_in: None },
            1 => PassOutcome::Succeeded { due_in: Some(LEASE) },
            2 => PassOutcome::Succeeded { due_in: Some(Duration::ZERO) },
            _ => PassOutcome::Failed {
                reason: "cluster_transient".to_owned(),
                message: "the API server is away".to_owned(),
                retry_after: Some(LEFT_ALONE),
            },
        };
        let released = self.world.schedule().release(lease, known.version(), &outcome).await;
        self.tell(&format!("release {number}, {outcome:?}"), released);
    }

    async fn steer(&mut self, number: u128) {
        let (schedule, by) = (self.world.schedule(), attribution());
        match self.random.random_range(0..4) {
            0 => {
                let there = schedule.schedule(id(number), Due::Now).await;
                self.tell(&format!("schedule {number} now"), there);
            }
            1 => {
                let there = schedule.schedule(id(number), Due::After(LEASE)).await;
                self.tell(&format!("schedule {number} later"), there);
            }
            2 => {
                let paused = self.random.random();
                let there = schedule.set_paused(id(number), paused, &by).await;
                self.tell(&format!("pause {number}: {paused}"), there);
            }
            _ => {
                let brake = Brake::new(9, 10, second(7));
                let brake = self.random.random::<bool>().then_some(brake);
                let set = schedule.set_brake(&cluster(1), brake.as_ref(), &by).await;
                self.tell(&format!("brake {}", brake.is_some()), set);
                let now = schedule.brake(&cluster(1)).await;
                self.tell("the brake", now);
            }
        }
    }

    /// Of times only whether they have come.
    async fn place(&mut self, number: u128) {
        let entry = self.world.schedule().entry(id(number)).await;
        let entry = entry.map(|entry| {
            entry.map(|it| {
                let due = it.due_at.map(|due| due <= it.now);
                let lease = it.lease.map(|(worker, until)| (worker, until > it.now));
                (due, it.attempts, it.last_error, it.paused, it.epoch, lease)
            })
        });
        self.tell(&format!("the place of {number}"), entry);
    }

    async fn claim_events(&mut self) {
        let limit = rows(self.random.random_range(1..4));
        let request = ClaimEvents::new(worker("relay"), limit, LEASE);
        let claimed = self.world.outbox().claim_events(&request).await;
        self.claims.extend(claimed.iter().flatten().map(|event| event.claim.clone()));
        let claimed = claimed.map(|events| {
            let words = events.iter().map(|it| {
                let payload = String::from_utf8_lossy(&it.payload).into_owned();
                (it.resource, it.sequence, it.event_type, it.attempt, it.occurred_at, payload)
            });
            words.collect::<Vec<_>>()
        });
        self.tell("claim events", claimed);
    }

    async fn settle_event(&mut self) {
        if self.claims.is_empty() {
            return self.claim_events().await;
        }
        let claim = self.claims.remove(self.random.random_range(0..self.claims.len()));
        let outbox = self.world.outbox();
        if self.random.random_range(0..4) > 0 {
            let done = outbox.acknowledge_event(&claim).await;
            self.tell("acknowledge", done);
        } else {
            let done = outbox.set_aside_event(&claim, "nobody takes it").await;
            self.tell("set aside", done);
        }
    }

    async fn resume(&mut self, number: u128) {
        let how = if self.random.random() { Resume::Retry } else { Resume::Skip };
        let resumed = self.world.outbox().resume_events(id(number), how, &attribution()).await;
        self.tell(&format!("resume {number}, {how:?}"), resumed);
        let aside = self.world.outbox().set_aside_events(None, rows(10)).await;
        self.tell("set aside are", aside);
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
