//! The store: random lifecycles of a few resources, with several workers, stale callers, relays and
//! purges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker_domain::{
    Change, Error, FailureReason, Phase, ProvisionedResource, ReferencesDigest, Stamp, TokenOrdinal,
};
use broker_ports::{
    Backoff, ClaimEvents, ClaimRequest, ClaimTarget, DeliveryFailure, Due, EventClaim, EventsOf,
    Lane, Lease, ListQuery, PassOutcome, PurgeRequest, Redrive, Replacement, SweepQuery, Write,
    WriteKind, Written,
};
use broker_testkit::builders::{
    ResourceBuilder, attribution, cluster, composed, declaration, id, resource, rows, stamp, worker,
};
use broker_testkit::store::StoreUnderTest;

#[path = "../../../../broker-ports/testkit/tests/common/in_memory.rs"]
mod in_memory;

use in_memory::InMemoryStore;

use super::{Transcript, compare, histories};
use crate::servers::pg::fresh_database;
use crate::servers::pg::store::world::World;

const STEPS: u32 = 60;
const RESOURCES: u32 = 3;
/// The lease of a resource, and the claim of an event: longer than a history takes, so that only
/// the history's steps end it.
const LEASE: Duration = Duration::from_mins(10);
/// Longer than any random back-off.
const MAX_BACKOFF: Duration = Duration::from_hours(2);

#[tokio::test]
async fn memory_store_answers_like_postgres() {
    let database = Arc::new(fresh_database().await);
    let seeds = histories(25, 1_000);
    let mut calls = 0;
    for seed in seeds.clone() {
        let memory = HistoryRunner::new(&InMemoryStore::fresh(), seed).run().await;
        let real = HistoryRunner::new(&World::emptied(&database).await, seed).run().await;
        compare(seed, &memory, &real);
        calls += memory.len();
    }
    println!("proof: {} histories of a store, {calls} answers", seeds.end);
}

struct HistoryRunner<'w> {
    world: &'w dyn StoreUnderTest,
    transcript: Transcript,
    /// Resources as a client remembers them, possibly stale.
    known: BTreeMap<u32, ProvisionedResource>,
    leases: BTreeMap<u128, Lease>,
    claims: Vec<EventClaim>,
}

impl<'w> HistoryRunner<'w> {
    fn new(world: &'w dyn StoreUnderTest, seed: u64) -> Self {
        let (known, leases, claims) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { world, transcript: Transcript::new(seed), known, leases, claims }
    }

    async fn run(mut self) -> Vec<String> {
        for (number, wording) in (1..=RESOURCES).flat_map(|number| [(number, 0), (number, 1)]) {
            self.world
                .register_references(&builder_for(number, wording).declaration())
                .await
                .unwrap();
        }
        for step in 1..=STEPS {
            self.transcript.step = step;
            let number = 1 + self.random_below(RESOURCES);
            match self.random_below(20) {
                0..11 => self.resources(number).await,
                11..16 => self.schedule(number).await,
                _ => self.outbox(number).await,
            }
            // One second per step orders the steps in both stores.
            self.world.advance(Duration::from_secs(1)).await.unwrap();
        }
        for number in 1..=RESOURCES {
            self.read(number).await;
        }
        self.transcript.lines
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        self.transcript.random_below(bound)
    }

    /// A stamp far ahead of every store's clock, so that no store's own time ends up in a resource.
    fn stamp(&self) -> Stamp {
        let step = self.transcript.step;
        stamp(1_000_000 + u128::from(step), 3_000_000_000 + i64::from(step))
    }

    /// Reads a resource, its pages and counts. The client remembers the result.
    async fn read(&mut self, number: u32) {
        let (world, resource_id) = (self.world, id(number.into()));
        let (repository, outbox) = (world.repository(), world.outbox());
        let found = repository.get_by_id(resource_id).await;
        if let Ok(Some(row)) = &found {
            self.known.insert(number, row.clone());
        }
        self.transcript.record("get", found);
        self.transcript.record("entry", world.schedule().entry(resource_id).await);
        let lines = repository.history(resource_id).await.map(|lines| {
            let lines = lines.into_iter().map(|line| (line.version, line.epoch, line.entry));
            lines.collect::<Vec<_>>()
        });
        self.transcript.record("history", lines);
        let mut query = ListQuery::new(rows(2));
        if self.random_below(2) == 0 {
            query = query.in_phase(Phase::Ready);
        }
        self.transcript.record("list", repository.list(&query).await);
        self.transcript.record("sweep", repository.sweep_page(&SweepQuery::new(rows(2))).await);
        self.transcript.record("backlog", outbox.backlog().await);
        self.transcript
            .record("dead letters", outbox.dead_letter_events(EventsOf::All, rows(10)).await);
    }

    async fn resources(&mut self, number: u32) {
        let repository = self.world.repository();
        let known = self.known.get(&number).cloned();
        match (self.random_below(14), known) {
            (0..3, _) => {
                let wording = self.random_below(2);
                let created = repository.create(&builder_for(number, wording).admitted()).await;
                self.transcript.record(&format!("create {number} as {wording}"), created);
            }
            (3, _) => {
                let purge = PurgeRequest::new(LEASE, rows(10));
                self.transcript.record("purge", repository.purge_deleted(&purge).await);
            }
            (4..6, Some(known)) => {
                let admitted = builder_for(number % RESOURCES + 1, 0).admitted();
                let replaced = match Replacement::new(&known, admitted, self.stamp()) {
                    Ok(replacement) => repository.replace(&replacement).await,
                    Err(error) => Err(error.into()),
                };
                self.transcript.record(&format!("replace {number}"), replaced);
            }
            (6..12, Some(known)) => self.write(number, &known).await,
            _ => self.read(number).await,
        }
    }

    /// A write based on the remembered resource, by a caller or by a worker with a current or
    /// former lease.
    async fn write(&mut self, number: u32, known: &ProvisionedResource) {
        let (kind, change) = self.change(known);
        let what = format!("{kind:?} of {number} at {}", known.version());
        let change = match change {
            Ok(Some(change)) => change,
            Ok(None) => return self.transcript.record(&what, Ok("nothing to do")),
            Err(error) => return self.transcript.record::<()>(&what, Err(error.into())),
        };
        let (by, as_worker) = (attribution(), self.random_below(4) > 0);
        let write = match self.leases.get(&number.into()).filter(|_| as_worker) {
            Some(lease) => Write::by_worker(&change, lease.epoch, &by),
            None => Write::by_caller(&change, &by),
        };
        let written = self.world.repository().write(kind, &write).await;
        if matches!(written, Ok(Written::Committed)) && self.random_below(4) > 0 {
            self.known.insert(number, change.into_resource());
        }
        self.transcript.record(&what, written);
    }

    fn change(
        &mut self,
        known: &ProvisionedResource,
    ) -> (WriteKind, Result<Option<Change>, Error>) {
        let (stamp, part) = (self.stamp(), composed(&format!("part-{}", self.random_below(3))));
        let at = stamp.at;
        match self.random_below(10) {
            0 => (WriteKind::DeletionIntent, Ok(known.request_deletion(stamp))),
            1 => {
                let token = id(2_000_000 + u128::from(self.transcript.step));
                (WriteKind::Token, known.record_token(token, TokenOrdinal::FIRST, at).map(Some))
            }
            2 => (WriteKind::Closed, known.record_closed(at)),
            3 | 4 => {
                let seen = known.substrate().clone();
                let seen = seen.about_to_apply(cluster(1), composed("config"));
                let seen = if known.phase().is_teardown() {
                    let gone = seen.composed().iter().cloned().chain([composed("config")]);
                    seen.clone().without(&gone.collect())
                } else {
                    seen.observed([part], ReferencesDigest::new([1; 32]))
                };
                (WriteKind::Substrate, known.record_substrate(seen, at))
            }
            5 if !known.phase().is_teardown() => {
                (WriteKind::Phase, known.fail(FailureReason::from_message("out of quota"), stamp))
            }
            _ => {
                let legal = Phase::ALL.into_iter().filter(|to| {
                    known.phase().can_become(*to) && *to != known.phase() && *to != Phase::Failed
                });
                let legal: Vec<_> = legal.collect();
                let to = self.random_below(7) as usize % legal.len().max(1);
                (WriteKind::Phase, legal.get(to).map_or(Ok(None), |to| known.advance(*to, stamp)))
            }
        }
    }

    async fn schedule(&mut self, number: u32) {
        let (schedule, resource_id, by) = (self.world.schedule(), id(number.into()), attribution());
        let due = |lane| ClaimTarget::Due { lane, limit: rows(2) };
        match self.random_below(12) {
            0..3 => self.claim(ClaimTarget::One(resource_id)).await,
            3 => self.claim(due(Lane::Converge)).await,
            4 => self.claim(due(Lane::Teardown)).await,
            5..8 => self.release(number).await,
            8 => self.transcript.record("now", schedule.schedule(resource_id, Due::Now).await),
            9 => self
                .transcript
                .record("later", schedule.schedule(resource_id, Due::After(LEASE)).await),
            10 => {
                let paused = self.random_below(2) == 0;
                self.transcript
                    .record("pause", schedule.set_paused(resource_id, paused, &by).await);
            }
            _ => {
                let by = if self.random_below(2) == 0 { LEASE } else { MAX_BACKOFF * 2 };
                self.transcript.record("time passes", self.world.advance(by).await);
            }
        }
    }

    async fn claim(&mut self, target: ClaimTarget) {
        let name = worker(if self.random_below(2) == 0 { "one" } else { "other" });
        let claimed = self.world.schedule().claim(&ClaimRequest::new(name, target, LEASE)).await;
        for lease in claimed.iter().flatten() {
            self.leases.insert(lease.resource.as_uuid().as_u128(), lease.clone());
        }
        self.transcript.record(&format!("claim {target:?}"), claimed);
    }

    async fn release(&mut self, number: u32) {
        let outcome = match self.random_below(4) {
            0 => PassOutcome::Succeeded { due_in: None },
            1 => PassOutcome::Succeeded { due_in: Some(LEASE) },
            2 => PassOutcome::Succeeded { due_in: Some(Duration::ZERO) },
            _ => PassOutcome::Failed {
                reason: "cluster_transient".to_owned(),
                message: "the API server is away".to_owned(),
                retry_after: Some(MAX_BACKOFF),
                backoff: Backoff::default(),
            },
        };
        let (Some(lease), Some(known)) = (self.leases.get(&number.into()), self.known.get(&number))
        else {
            return self.read(number).await;
        };
        let released = self.world.schedule().release(lease, known.version(), &outcome).await;
        self.transcript.record(&format!("release {number}, {outcome:?}"), released);
    }

    async fn outbox(&mut self, number: u32) {
        let (outbox, resource_id, by) = (self.world.outbox(), id(number.into()), attribution());
        let claim = self.random_below(8) as usize % self.claims.len().max(1);
        let choice = self.random_below(14);
        if choice < 5 || choice < 11 && self.claims.is_empty() {
            let claimed =
                outbox.claim_events(&ClaimEvents::new(worker("relay"), rows(2), LEASE)).await;
            self.claims.extend(claimed.iter().flatten().map(|event| event.claim.clone()));
            return self.transcript.record("claim events", claimed);
        }
        let done = match choice {
            5..8 => outbox.acknowledge_event(&self.claims.remove(claim)).await,
            8 | 9 => {
                let why =
                    [DeliveryFailure::Rejected, DeliveryFailure::Unavailable][choice as usize - 8];
                outbox.delay_event(&self.claims.remove(claim), LEASE, why).await
            }
            10 => {
                outbox.dead_letter_event(&self.claims.remove(claim), "rejected by the sink").await
            }
            11 => {
                let purged = outbox.purge_events(LEASE, rows(10)).await;
                return self.transcript.record("purge events", purged);
            }
            _ => {
                let how = if choice == 12 { Redrive::Retry } else { Redrive::Skip };
                let redriven = outbox.redrive_events(resource_id, how, &by).await;
                return self.transcript.record(&format!("redrive {number}, {how:?}"), redriven);
            }
        };
        self.transcript.record(&format!("settle, {choice}"), done);
    }
}

/// A resource's declaration, in one of two wordings under the same request id.
fn builder_for(number: u32, wording: u32) -> ResourceBuilder {
    let declaration = declaration().for_resource(10 + u128::from(wording));
    let builder = resource().numbered(number.into()).declared_as(declaration);
    let builder = builder.requested_as(&format!("request-{number}"));
    if number.is_multiple_of(2) { builder } else { builder.standalone() }
}
