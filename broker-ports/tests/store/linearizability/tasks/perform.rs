//! The calls, and what was answered in words that the model understands.

use broker_domain::{Change, Phase, ProvisionedResource, ReferencesDigest, Stamp};
use broker_ports::testing::builders::{
    attribution, cluster, composed, id, resource, rows, second, stamp, worker,
};
use broker_ports::{
    Acknowledged, ClaimEvents, ClaimRequest, ClaimTarget, Created, Due, LeaseEpoch, ListQuery,
    PassOutcome, PortError, PurgeRequest, Released, SweepQuery, Write, Written,
};

use super::{ANSWERS, HOUR, Task, number_of, worded};
use crate::linearizability::model::{Answer, Call, Glance, Number, Recorded};

impl Task {
    pub(super) async fn perform(&mut self, call: &Call, name: Number) -> Answer {
        match call {
            Call::Create { slot, wording, .. } => self.create(*slot, *wording, name).await,
            Call::Lookup { slot } => self.look_up(*slot).await,
            Call::Advance { to, epoch, .. } => self.advance(*to, *epoch, name).await,
            Call::Record { what, epoch, .. } => self.record(*what, *epoch, name).await,
            Call::Delete { .. } => self.delete(name).await,
            Call::Claim { number } => self.claim(ClaimTarget::One(id(*number))).await,
            Call::ClaimDue { lane, limit } => {
                self.claim(ClaimTarget::Due { lane: *lane, limit: rows(*limit) }).await
            }
            Call::Release { .. } => self.release().await,
            Call::Schedule { number } => {
                let there = self.ports.schedule.schedule(id(*number), Due::Now).await;
                Answer::ThereIs(there.expect(ANSWERS))
            }
            Call::Pause { number, paused } => {
                let (by, id) = (attribution(), id(*number));
                let there = self.ports.schedule.set_paused(id, *paused, &by).await;
                Answer::ThereIs(there.expect(ANSWERS))
            }
            Call::List => {
                let query = ListQuery::new(rows(1_000));
                let page = self.ports.repository.list(&query).await.expect(ANSWERS);
                let listed = page.resources.iter();
                Answer::Listed(listed.map(|row| (number_of(row), row.version().get())).collect())
            }
            Call::Sweep => self.sweep().await,
            Call::History { number } => {
                let history = self.ports.repository.history(id(*number)).await;
                Answer::Lines(history.expect(ANSWERS).len())
            }
            Call::ClaimEvents => self.claim_events().await,
            Call::Acknowledge { .. } => {
                let (_, _, claim) = self.claims.remove(0);
                match self.ports.outbox.acknowledge_event(&claim).await.expect(ANSWERS) {
                    Acknowledged::Done => Answer::Done,
                    Acknowledged::ClaimLost => Answer::ClaimLost,
                }
            }
            Call::Purge { limit } => {
                let request = PurgeRequest::new(std::time::Duration::ZERO, rows(*limit));
                let purged = self.ports.repository.purge_deleted(&request).await.expect(ANSWERS);
                let mut purged: Vec<_> = purged.iter().map(|id| id.as_uuid().as_u128()).collect();
                purged.sort_unstable();
                Answer::Purged(purged)
            }
            Call::PurgeEvents => {
                let at_once = std::time::Duration::ZERO;
                let purged = self.ports.outbox.purge_events(at_once, rows(1_000)).await;
                Answer::PurgedEvents(purged.expect(ANSWERS))
            }
        }
    }

    async fn create(&mut self, slot: u8, wording: u8, name: Number) -> Answer {
        let builder = resource().numbered(name).declared_as(worded(slot, wording));
        let builder = if slot.is_multiple_of(2) { builder.standalone() } else { builder };
        match self.ports.repository.create(&builder.admitted()).await.expect(ANSWERS) {
            Created::Stored => {
                self.known = Some(builder.build());
                Answer::Stored
            }
            Created::Replayed(first) => {
                let (number, version) = (number_of(&first), first.version().get());
                self.known = Some(*first);
                Answer::Replayed { number, version }
            }
            Created::Conflict => Answer::Conflict,
        }
    }

    async fn look_up(&mut self, slot: u8) -> Answer {
        let declaration = worded(slot, 0).build();
        let request = declaration.request_id.expect("a slot has a request id");
        let found = self.ports.repository.get_by_request(declaration.project_id, &request).await;
        Answer::Found(found.expect(ANSWERS).map(|found| {
            let resource = found.resource;
            let seen = (number_of(&resource), resource.version().get(), resource.phase());
            self.known = Some(resource);
            seen
        }))
    }

    async fn sweep(&mut self) -> Answer {
        let query = SweepQuery::new(rows(1_000));
        let page = self.ports.repository.sweep_page(&query).await.expect(ANSWERS);
        let now = page.now;
        let rows = page.rows.into_iter().map(|row| Glance {
            number: row.id.as_uuid().as_u128(),
            version: row.version.get(),
            phase: row.phase,
            due: row.due_at.is_some_and(|due_at| due_at <= now),
            held: row.lease_until.is_some(),
            paused: row.paused,
        });
        Answer::Swept(rows.collect())
    }

    async fn advance(&mut self, to: Phase, epoch: Option<u64>, name: Number) -> Answer {
        let change = self.known().advance(to, stamp_of(name));
        let change = change.expect("a legal step").expect("another phase");
        let by = attribution();
        let write = written_by(&change, epoch, &by);
        let written = self.ports.repository.update_phase(&write).await;
        self.learn(&written, change)
    }

    async fn record(&mut self, what: Recorded, epoch: Option<u64>, name: Number) -> Answer {
        let (by, at, known) = (attribution(), second(100), self.known());
        let repository = &self.ports.repository;
        let (change, written) = match what {
            Recorded::Token => {
                let token = id(2_000_000 + name);
                let change = known.record_token(token, known.token_ordinal(), at);
                let change = change.expect("a node on the way up");
                let written = repository.record_token(&written_by(&change, epoch, &by)).await;
                (change, written)
            }
            Recorded::Closed => {
                let change = known.record_closed(at).expect("in teardown").expect("not closed");
                let written = repository.record_closed(&written_by(&change, epoch, &by)).await;
                (change, written)
            }
            Recorded::Substrate => {
                let change = seen_on_the_cluster(known, name);
                let written = repository.record_substrate(&written_by(&change, epoch, &by)).await;
                (change, written)
            }
        };
        self.learn(&written, change)
    }

    async fn delete(&mut self, name: Number) -> Answer {
        let change = self.known().request_deletion(stamp_of(name));
        let change = change.expect("it is not leaving yet");
        let by = attribution();
        let write = Write::by_caller(&change, &by);
        let written = self.ports.repository.record_deletion_intent(&write).await;
        self.learn(&written, change)
    }

    fn learn(&mut self, written: &Result<Written, PortError>, change: Change) -> Answer {
        match written {
            Ok(Written::Committed) => {
                self.known = Some(change.into_resource());
                Answer::Committed
            }
            Ok(Written::Stale) => Answer::Stale,
            Ok(Written::LeaseLost) => Answer::LeaseLost,
            Err(_) => Answer::Refused,
        }
    }

    async fn claim(&mut self, target: ClaimTarget) -> Answer {
        let name = worker(&format!("task-{}", self.number));
        let request = ClaimRequest::new(name, target, HOUR);
        let leases = self.ports.schedule.claim(&request).await.expect(ANSWERS);
        let mut given: Vec<_> = leases
            .iter()
            .map(|lease| (lease.resource.as_uuid().as_u128(), lease.epoch.get()))
            .collect();
        given.sort_unstable();
        self.lease = leases.into_iter().next().or(self.lease.take());
        Answer::Leased(given)
    }

    /// Gives the lease back and keeps it in mind: a task may come a second time with what it has no more.
    async fn release(&mut self) -> Answer {
        let lease = self.lease.clone().expect("it only gives back what it had");
        let seen = self.known().version();
        let outcome = PassOutcome::Succeeded { due_in: None };
        match self.ports.schedule.release(&lease, seen, &outcome).await.expect(ANSWERS) {
            Released::Done => Answer::Done,
            Released::LeaseLost => Answer::LeaseLost,
        }
    }

    async fn claim_events(&mut self) -> Answer {
        let name = format!("task-{}", self.number);
        let request = ClaimEvents::new(worker(&name), rows(1_000), HOUR);
        let mut claimed: Vec<_> = self
            .ports
            .outbox
            .claim_events(&request)
            .await
            .expect(ANSWERS)
            .into_iter()
            .map(|event| (event.resource.as_uuid().as_u128(), event.sequence, event.claim))
            .collect();
        claimed.sort_by_key(|(number, sequence, _)| (*number, *sequence));
        let events = claimed.iter().map(|(number, sequence, _)| (*number, *sequence)).collect();
        self.claims.extend(claimed);
        Answer::Events(events)
    }
}

/// A worker's write if it names an epoch, else a caller's.
fn written_by<'a>(
    change: &'a Change,
    epoch: Option<u64>,
    by: &'a broker_ports::Attribution,
) -> Write<'a> {
    match epoch {
        Some(epoch) => Write::by_worker(change, LeaseEpoch::new(epoch), by),
        None => Write::by_caller(change, by),
    }
}

/// One more object than before.
fn seen_on_the_cluster(known: &ProvisionedResource, name: Number) -> Change {
    let seen = known.substrate().clone().about_to_apply(cluster(1), composed("config"));
    let seen = seen.observed([composed(&format!("vm-{name}"))], ReferencesDigest::new([1; 32]));
    let change = known.record_substrate(seen, second(100));
    change.expect("one cluster").expect("something new")
}

/// An event id that no other call uses.
fn stamp_of(name: Number) -> Stamp {
    stamp(5_000_000 + name, 100)
}
