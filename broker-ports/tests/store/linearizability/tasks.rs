//! Many tasks that do random things with one store, and write down what they see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_domain::{Change, Phase, ProvisionedResource, Stamp};
use broker_ports::testing::builders::{
    DeclarationBuilder, attribution, declaration, id, resource, rows, stamp, worker,
};
use broker_ports::{
    Acknowledged, ClaimEvents, ClaimRequest, ClaimTarget, Created, EventClaim, Lease, LeaseEpoch,
    ListQuery, Outbox, PassOutcome, PortError, Released, Repository, Schedule, Write, Written,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::checker::Entry;
use super::model::{Answer, Call, Number};

pub(super) const TASKS: u64 = 32;
const CALLS_PER_TASK: u64 = 3;
const SLOTS: u8 = 3;
const HOUR: Duration = Duration::from_hours(1);
/// No call here has a reason to fail, whatever the others do.
const ANSWERS: &str = "the store answers";

/// A store as the tasks see it.
#[derive(Clone)]
pub(super) struct Ports {
    repository: Arc<dyn Repository>,
    schedule: Arc<dyn Schedule>,
    outbox: Arc<dyn Outbox>,
}

impl Ports {
    pub(super) fn of<S: Repository + Schedule + Outbox + 'static>(store: S) -> Self {
        let store = Arc::new(store);
        Self { repository: store.clone(), schedule: store.clone(), outbox: store }
    }
}

/// One history.
pub(super) async fn run(seed: u64, ports: Ports) -> Vec<Entry> {
    let time = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let task = Task {
            number,
            ports: ports.clone(),
            time: time.clone(),
            random: StdRng::seed_from_u64(seed * TASKS + number),
            known: None,
            lease: None,
            claims: Vec::new(),
        };
        tasks.spawn(task.run());
    }
    let mut history: Vec<Entry> = tasks.join_all().await.into_iter().flatten().collect();
    history.sort_by_key(|entry| entry.called);
    history
}

/// One task, with what it has learnt so far.
struct Task {
    number: u64,
    ports: Ports,
    time: Arc<AtomicU64>,
    random: StdRng,
    known: Option<ProvisionedResource>,
    lease: Option<Lease>,
    claims: Vec<(Number, u64, EventClaim)>,
}

impl Task {
    async fn run(mut self) -> Vec<Entry> {
        let mut seen = Vec::new();
        for step in 0..CALLS_PER_TASK {
            let name = u128::from(self.number * CALLS_PER_TASK + step + 1);
            let call = self.choose(name);
            let called = self.time.fetch_add(1, Ordering::SeqCst);
            self.dawdle().await;
            let answer = self.perform(&call, name).await;
            self.dawdle().await;
            let returned = self.time.fetch_add(1, Ordering::SeqCst);
            seen.push(Entry { called, returned, call, answer });
        }
        seen
    }

    /// Lets others in between, so that calls are under way at the same time.
    async fn dawdle(&mut self) {
        for _ in 0..self.random.random_range(0..3) {
            tokio::task::yield_now().await;
        }
    }

    fn choose(&mut self, name: Number) -> Call {
        let slot = self.random.random_range(0..SLOTS);
        let Some(known) = self.known.clone() else {
            return match self.random.random_range(0..6) {
                0..3 => {
                    Call::Create { slot, number: name, wording: self.random.random_range(0..2) }
                }
                3..5 => Call::Lookup { slot },
                _ => Call::List,
            };
        };
        let (number, version) = (number_of(&known), known.version().get());
        match self.random.random_range(0..12) {
            0 => Call::Lookup { slot },
            1 => Call::List,
            2 => Call::History { number },
            3 => Call::Pause { number, paused: self.random.random() },
            4 => Call::ClaimEvents,
            5 | 6 => Call::Claim { number },
            7 if self.lease.is_some() => {
                let epoch = self.lease.as_ref().map_or(0, |lease| lease.epoch.get());
                Call::Release { number: self.leased(), epoch }
            }
            8 if !self.claims.is_empty() => {
                let (number, sequence, _) = self.claims[0];
                Call::Acknowledge { number, sequence }
            }
            9 if known.phase() != Phase::Deregistering => Call::Delete { number, version },
            _ => self.choose_advance(&known, number, version),
        }
    }

    fn choose_advance(
        &mut self,
        known: &ProvisionedResource,
        number: Number,
        version: u64,
    ) -> Call {
        let to = match known.phase() {
            Phase::Pending => Phase::Provisioning,
            Phase::Provisioning => Phase::Ready,
            Phase::Ready => Phase::Pending,
            Phase::Enrolling
            | Phase::Failed
            | Phase::Deregistering
            | Phase::Deprovisioning
            | Phase::Deleted => return Call::History { number },
        };
        let own = self.lease.as_ref().filter(|_| self.leased() == number);
        Call::Advance { number, version, to, epoch: own.map(|lease| lease.epoch.get()) }
    }

    fn leased(&self) -> Number {
        self.lease.as_ref().map_or(0, |lease| lease.resource.as_uuid().as_u128())
    }

    async fn perform(&mut self, call: &Call, name: Number) -> Answer {
        match call {
            Call::Create { slot, wording, .. } => self.create(*slot, *wording, name).await,
            Call::Lookup { slot } => self.look_up(*slot).await,
            Call::Advance { to, epoch, .. } => self.advance(*to, *epoch, name).await,
            Call::Delete { .. } => self.delete(name).await,
            Call::Claim { number } => self.claim(*number).await,
            Call::Release { .. } => self.release().await,
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
        }
    }

    async fn create(&mut self, slot: u8, wording: u8, name: Number) -> Answer {
        let builder = resource().numbered(name).standalone().declared_as(worded(slot, wording));
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

    async fn advance(&mut self, to: Phase, epoch: Option<u64>, name: Number) -> Answer {
        let change = self.known().advance(to, stamp_of(name));
        let change = change.expect("a legal step").expect("another phase");
        let by = attribution();
        let epoch = epoch.map(LeaseEpoch::new);
        let write = Write { epoch, ..Write::by_caller(&change, &by) };
        let written = self.ports.repository.update_phase(&write).await;
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

    fn known(&self) -> &ProvisionedResource {
        self.known.as_ref().expect("it only writes what it has read")
    }

    async fn claim(&mut self, number: Number) -> Answer {
        let request = ClaimRequest {
            worker: worker(&format!("task-{}", self.number)),
            target: ClaimTarget::One(id(number)),
            lease_for: HOUR,
        };
        let lease = self.ports.schedule.claim(&request).await.expect(ANSWERS).pop();
        let epoch = lease.as_ref().map(|lease| lease.epoch.get());
        self.lease = lease.or(self.lease.take());
        Answer::Leased(epoch)
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
        let request = ClaimEvents { worker: worker(&name), limit: rows(1_000), claim_for: HOUR };
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

/// The declaration of a slot: one request id, two wordings.
fn worded(slot: u8, wording: u8) -> DeclarationBuilder {
    declaration()
        .requested_as(&format!("slot-{slot}"))
        .with_parameters(&format!(r#"{{"wording":{wording}}}"#))
}

fn number_of(resource: &ProvisionedResource) -> Number {
    resource.id().as_uuid().as_u128()
}

/// An event id that no other call uses.
fn stamp_of(name: Number) -> Stamp {
    stamp(1_000_000 + name, 100)
}
