//! The relay with a faulty receiver: two replicas deliver, and the receiver is slow, down, or
//! rejects one event.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;
use broker_memory::RecordingEventSink;
use broker_ports::{Envelope, EventSink, FailureClass, Outbox, PortError, PortName, Redrive};
use broker_testkit::faults::{Fault, FaultPlan, LateArrival};
use broker_tests::world::{NODE, World, config, declaration, operator};
use tokio::task::JoinSet;

/// A receiver that takes 200 ms per event, and can reply with `Retry-After`.
#[derive(Clone, Default)]
struct SlowReceiver {
    retry_after: Arc<Mutex<Option<Duration>>>,
    record: RecordingEventSink,
    sent: Arc<Mutex<BTreeMap<ProvisionedResourceId, usize>>>,
}

impl SlowReceiver {
    fn sent(&self, resource: ProvisionedResourceId) -> usize {
        self.sent.lock().unwrap().get(&resource).copied().unwrap_or_default()
    }
}

#[async_trait]
impl EventSink for SlowReceiver {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        *self.sent.lock().unwrap().entry(envelope.resource).or_default() += 1;
        if let Some(wait) = *self.retry_after.lock().unwrap() {
            return Err(PortError::transient("503 Service Unavailable").with_retry_after(wait));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.record.deliver(envelope).await
    }
}

/// Two replicas over resources that wait for their namespace: only their events move.
struct Fixture {
    world: World,
    receiver: SlowReceiver,
    resources: Vec<ProvisionedResourceId>,
    _replicas: JoinSet<()>,
}

impl Fixture {
    async fn with_resources(count: usize) -> Self {
        let (world, receiver) = (World::new(), SlowReceiver::default());
        world.place(false);
        let mut resources = Vec::new();
        for _ in 0..count {
            resources.push(world.declare(&declaration(NODE)).await.unwrap().id());
        }
        let mut replicas = JoinSet::new();
        for number in 0..2 {
            let relay = world.relay_to(Arc::new(receiver.clone()));
            let make_runner = world.runner_maker(relay, config(&format!("replica-{number}")));
            replicas.spawn(async move { make_runner().run(std::future::pending()).await.unwrap() });
        }
        Self { world, receiver, resources, _replicas: replicas }
    }

    async fn let_time_pass(&self, time: Duration) {
        let second = Duration::from_secs(1);
        for _ in 0..time.as_secs() {
            tokio::time::sleep(second).await;
            self.world.clock.advance(second);
        }
    }

    async fn delete_all(&self) {
        for id in &self.resources {
            self.world.service.deprovision(&operator(), *id).await.unwrap();
        }
    }

    /// The sequence numbers per resource, in order of arrival.
    fn arrived(&self) -> BTreeMap<ProvisionedResourceId, Vec<u64>> {
        let mut arrived: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for envelope in self.receiver.record.deliveries() {
            arrived.entry(envelope.resource).or_default().push(envelope.sequence);
        }
        arrived
    }

    async fn dead_letter(&self) -> u64 {
        self.world.store.backlog().await.unwrap().dead_letter
    }
}

/// Requested, Deleting, Deleted: each once, in order.
const ALL_SEQUENCES: [u64; 3] = [1, 2, 3];

#[tokio::test(start_paused = true)]
async fn receiver_down_for_an_hour_loses_and_repeats_nothing() {
    let fixture = Fixture::with_resources(400).await;
    fixture.receiver.record.set_reachable(false);
    fixture.let_time_pass(Duration::from_mins(30)).await;
    fixture.delete_all().await;
    fixture.let_time_pass(Duration::from_mins(30)).await;
    assert_eq!(
        (fixture.arrived().len(), fixture.dead_letter().await),
        (0, 0),
        "no event is delivered or dead-lettered"
    );
    let requests: usize = fixture.resources.iter().map(|id| fixture.receiver.sent(*id)).sum();
    assert!(requests < 400, "a receiver that is down got {requests} requests");

    fixture.receiver.record.set_reachable(true);
    fixture.let_time_pass(Duration::from_mins(10)).await;
    let arrived = fixture.arrived();
    assert_eq!(arrived.len(), 400);
    for (resource, sequences) in arrived {
        assert_eq!(sequences, ALL_SEQUENCES, "{resource}");
    }
    assert_eq!(fixture.world.store.backlog().await.unwrap().depth, 0);
}

#[tokio::test(start_paused = true)]
async fn slow_receiver_gets_each_event_once_from_two_replicas() {
    let fixture = Fixture::with_resources(400).await;
    fixture.delete_all().await;
    fixture.let_time_pass(Duration::from_mins(5)).await;
    assert_eq!(fixture.arrived().len(), 400);
    for (resource, sequences) in fixture.arrived() {
        assert_eq!(sequences, ALL_SEQUENCES, "{resource}");
    }
}

/// Asserts that the first resource's events wait while the others are delivered. Returns the first.
async fn assert_only_the_first_waits(fixture: &Fixture) -> ProvisionedResourceId {
    fixture.delete_all().await;
    fixture.let_time_pass(Duration::from_mins(20)).await;
    let (first, arrived) = (fixture.resources[0], fixture.arrived());
    assert_eq!(arrived.get(&first), None, "the receiver took no event of the first resource");
    for other in &fixture.resources[1..] {
        assert_eq!(arrived[other], ALL_SEQUENCES, "{other}");
    }
    first
}

#[tokio::test(start_paused = true)]
async fn event_that_always_gets_500_delays_no_other_resource() {
    let fixture = Fixture::with_resources(40).await;
    fixture.receiver.record.refuse(fixture.resources[0], Some(FailureClass::Transient));
    fixture.delete_all().await;
    fixture.let_time_pass(Duration::from_secs(5)).await;
    let arrived = fixture.arrived();
    assert_eq!(arrived.len(), 39, "the others are not delayed");

    let first = assert_only_the_first_waits(&fixture).await;
    assert_eq!(fixture.dead_letter().await, 0, "a 500 is not a rejection");
    fixture.receiver.record.refuse(first, None);
    fixture.let_time_pass(Duration::from_mins(2)).await;
    assert_eq!(fixture.arrived()[&first], ALL_SEQUENCES);
}

#[tokio::test(start_paused = true)]
async fn rejected_event_is_dead_letter_after_its_attempts() {
    let fixture = Fixture::with_resources(40).await;
    // An earlier outage does not count.
    fixture.receiver.record.set_reachable(false);
    fixture.let_time_pass(Duration::from_mins(10)).await;
    let first = fixture.resources[0];
    fixture.receiver.record.set_reachable(true);
    fixture.receiver.record.refuse(first, Some(FailureClass::Rejected));
    let before = fixture.receiver.sent(first);
    assert_only_the_first_waits(&fixture).await;
    assert_eq!(fixture.dead_letter().await, 1);
    assert_eq!(fixture.receiver.sent(first) - before, 3, "one request per attempt");

    fixture.receiver.record.refuse(first, None);
    let service = &fixture.world.service;
    let redriven = service.redrive_all_events(&operator(), None, Redrive::Retry).await.unwrap();
    assert_eq!(redriven.iter().map(|event| event.resource).collect::<Vec<_>>(), [first]);
    fixture.let_time_pass(Duration::from_mins(2)).await;
    assert_eq!(
        (fixture.arrived()[&first].as_slice(), fixture.dead_letter().await),
        (&ALL_SEQUENCES[..], 0)
    );
}

/// Both replicas honour the `Retry-After` of one event, which is longer than the event's own first back-off of one
/// second.
#[tokio::test(start_paused = true)]
async fn receiver_gets_no_request_before_its_retry_after() {
    let minute = Duration::from_mins(1);
    // The last row exceeds the longest wait, which is five minutes.
    for (retry_after, waited) in [(2 * minute, 2 * minute), (60 * minute, 5 * minute)] {
        let fixture = Fixture::with_resources(1).await;
        *fixture.receiver.retry_after.lock().unwrap() = Some(retry_after);
        let sent = || fixture.receiver.sent(fixture.resources[0]);
        fixture.let_time_pass(waited.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(sent(), 1, "before {waited:?}, Retry-After {retry_after:?}");
        fixture.let_time_pass(Duration::from_secs(3)).await;
        assert_eq!(sent(), 2, "after {waited:?}, Retry-After {retry_after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_relay_sends_nothing_under_an_expired_claim() {
    let slow = Fault::Delay { by: Duration::from_secs(4), late: LateArrival::Completes };
    let plan = FaultPlan::none().on(PortName::Outbox, "claim_events", 1, slow);
    let world = World::with_faults(plan);
    world.declare(&declaration(NODE)).await.unwrap();
    let relay = world.relay();
    let mut batch = std::pin::pin!(relay.deliver_batch());
    assert!(futures::poll!(&mut batch).is_pending(), "the relay still polls");
    tokio::time::advance(Duration::from_hours(1)).await;
    let report = batch.await.unwrap();
    assert_eq!((report.delivered, report.lost_claims), (0, 1));
    assert!(world.sink.deliveries().is_empty(), "another replica may hold the claim");
}
