//! Many tasks that do random things with one store, and write down what they see.

mod choose;
mod perform;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_domain::{Phase, ProvisionedResource};
use broker_ports::testing::builders::{DeclarationBuilder, declaration, resource, rows, worker};
use broker_ports::{
    Acknowledged, ClaimEvents, Created, EventClaim, Lease, Outbox, Repository, Schedule, Write,
    WriteKind, Written,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::checker::Entry;
use super::model::{Model, Number, Row};

pub(super) const TASKS: u64 = 32;
const CALLS_PER_TASK: u64 = 3;
/// The request ids that the tasks share. The last three stand for something from the beginning.
const SLOTS: u8 = 6;
const HOUR: std::time::Duration = std::time::Duration::from_hours(1);
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

/// One history, and what stood before it: three resources on their last steps, so that some of the few calls of a
/// history get to the end.
pub(super) async fn run(seed: u64, ports: Ports) -> (Vec<Entry>, Model) {
    let mut beginning = Model::default();
    prepare(&ports, &mut beginning, 3, Phase::Deprovisioning, 3).await;
    prepare(&ports, &mut beginning, 4, Phase::Deleted, 3).await;
    prepare(&ports, &mut beginning, 5, Phase::Deleted, 4).await;
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
    (history, beginning)
}

/// Stores a resource that is nearly gone, with so many of its events told, in the store and in the model.
async fn prepare(ports: &Ports, model: &mut Model, slot: u8, phase: Phase, told: u64) {
    let number = 1_000 + Number::from(slot);
    let builder = resource().numbered(number).standalone().declared_as(worded(slot, 0));
    let builder = builder.in_phase(phase);
    let created = ports.repository.create(&builder.admitted()).await.expect(ANSWERS);
    assert_eq!(created, Created::Stored);
    let by = broker_ports::testing::builders::attribution();
    let then = builder.life().then;
    for (kind, change) in &then {
        let write = Write::by_caller(change, &by);
        let written = match kind {
            WriteKind::Phase => ports.repository.update_phase(&write).await,
            WriteKind::Closed => ports.repository.record_closed(&write).await,
            WriteKind::DeletionIntent => ports.repository.record_deletion_intent(&write).await,
            WriteKind::Retry => ports.repository.record_retry(&write).await,
            WriteKind::Token | WriteKind::Substrate => panic!("a standalone one without substrate"),
        };
        assert_eq!(written.expect(ANSWERS), Written::Committed);
    }
    for _ in 0..told {
        let request = ClaimEvents::new(worker("before"), rows(1_000), std::time::Duration::ZERO);
        let events = ports.outbox.claim_events(&request).await.expect(ANSWERS);
        let own = events.iter().find(|event| event.resource == builder.id());
        let claim = &own.expect("it has an event to tell").claim;
        let taken = ports.outbox.acknowledge_event(claim).await.expect(ANSWERS);
        assert_eq!(taken, Acknowledged::Done);
    }
    let row = Row {
        version: builder.build().version().get(),
        phase,
        events: builder.build().event_sequence(),
        acknowledged: told,
        ..Row::declared()
    };
    model.prepare(slot, number, row, then.len() + 1);
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

    fn known(&self) -> &ProvisionedResource {
        self.known.as_ref().expect("it only writes what it has read")
    }

    fn leased(&self) -> Number {
        self.lease.as_ref().map_or(0, |lease| lease.resource.as_uuid().as_u128())
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
