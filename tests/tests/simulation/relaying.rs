//! The relay with a faulty receiver: two replicas deliver, and the receiver is slow, down, or
//! rejects one event.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;
use broker_memory::RecordingEventSink;
use broker_ports::{Envelope, EventSink, FailureClass, Outbox, PortError, PortName, Redrive};
use broker_testkit::faults::{Fault, FaultPlan, Late};
use broker_tests::world::{NODE, World, config, declaration, operator};
use tokio::task::JoinSet;

/// A receiver that takes 200 ms per event. It can ask every sender to wait.
#[derive(Clone, Default)]
struct Receiver {
    retry_after: Arc<Mutex<Option<Duration>>>,
    record: RecordingEventSink,
    sent: Arc<Mutex<BTreeMap<ProvisionedResourceId, usize>>>,
}

impl Receiver {
    fn sent(&self, resource: ProvisionedResourceId) -> usize {
        self.sent.lock().unwrap().get(&resource).copied().unwrap_or_default()
    }
}

#[async_trait]
impl EventSink for Receiver {
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
struct Scene {
    world: World,
    receiver: Receiver,
    resources: Vec<ProvisionedResourceId>,
    _replicas: JoinSet<()>,
}

impl Scene {
    async fn with(count: usize) -> Self {
        let (world, receiver) = (World::new(), Receiver::default());
        world.place(false);
        let mut resources = Vec::new();
        for _ in 0..count {
            resources.push(world.declare(&declaration(NODE)).await.unwrap().id());
        }
        let mut replicas = JoinSet::new();
        for number in 0..2 {
            let relay = world.relay_to(Arc::new(receiver.clone()));
            let make = world.runner_maker(relay, config(&format!("replica-{number}")));
            replicas.spawn(async move { make().run(std::future::pending()).await.unwrap() });
        }
        Self { world, receiver, resources, _replicas: replicas }
    }

    async fn let_pass(&self, time: Duration) {
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
const WHOLE: [u64; 3] = [1, 2, 3];

#[tokio::test(start_paused = true)]
async fn receiver_down_for_an_hour_loses_and_repeats_nothing() {
    let scene = Scene::with(400).await;
    scene.receiver.record.set_reachable(false);
    scene.let_pass(Duration::from_mins(30)).await;
    scene.delete_all().await;
    scene.let_pass(Duration::from_mins(30)).await;
    assert_eq!((scene.arrived().len(), scene.dead_letter().await), (0, 0), "nothing is given up");
    let requests: usize = scene.resources.iter().map(|id| scene.receiver.sent(*id)).sum();
    assert!(requests < 400, "a receiver that is down is probed, and got {requests} requests");

    scene.receiver.record.set_reachable(true);
    scene.let_pass(Duration::from_mins(10)).await;
    let arrived = scene.arrived();
    assert_eq!(arrived.len(), 400);
    for (resource, sequences) in arrived {
        assert_eq!(sequences, WHOLE, "{resource}");
    }
    assert_eq!(scene.world.store.backlog().await.unwrap().depth, 0);
}

#[tokio::test(start_paused = true)]
async fn slow_receiver_gets_each_event_once_from_two_replicas() {
    let scene = Scene::with(400).await;
    scene.delete_all().await;
    scene.let_pass(Duration::from_mins(5)).await;
    assert_eq!(scene.arrived().len(), 400);
    for (resource, sequences) in scene.arrived() {
        assert_eq!(sequences, WHOLE, "{resource}");
    }
}

/// Asserts that the first resource's events wait while the others are delivered. Returns the first.
async fn only_the_first_waits(scene: &Scene) -> ProvisionedResourceId {
    scene.delete_all().await;
    scene.let_pass(Duration::from_mins(20)).await;
    let (first, arrived) = (scene.resources[0], scene.arrived());
    assert_eq!(arrived.get(&first), None, "nothing of it was taken");
    for other in &scene.resources[1..] {
        assert_eq!(arrived[other], WHOLE, "{other}");
    }
    first
}

#[tokio::test(start_paused = true)]
async fn event_that_always_gets_500_delays_no_other_resource() {
    let scene = Scene::with(40).await;
    scene.receiver.record.refuse(scene.resources[0], Some(FailureClass::Transient));
    scene.delete_all().await;
    scene.let_pass(Duration::from_secs(5)).await;
    let arrived = scene.arrived();
    assert_eq!(arrived.len(), 39, "the others are not delayed");

    let first = only_the_first_waits(&scene).await;
    assert_eq!(scene.dead_letter().await, 0, "that is no rejection of the event");
    scene.receiver.record.refuse(first, None);
    scene.let_pass(Duration::from_mins(2)).await;
    assert_eq!(scene.arrived()[&first], WHOLE);
}

#[tokio::test(start_paused = true)]
async fn rejected_event_is_dead_letter_after_its_attempts() {
    let scene = Scene::with(40).await;
    // An earlier outage does not count.
    scene.receiver.record.set_reachable(false);
    scene.let_pass(Duration::from_mins(10)).await;
    let first = scene.resources[0];
    scene.receiver.record.set_reachable(true);
    scene.receiver.record.refuse(first, Some(FailureClass::Rejected));
    let before = scene.receiver.sent(first);
    only_the_first_waits(&scene).await;
    assert_eq!(scene.dead_letter().await, 1);
    assert_eq!(scene.receiver.sent(first) - before, 3, "one request per attempt");

    scene.receiver.record.refuse(first, None);
    let service = &scene.world.service;
    let resumed = service.redrive_all_events(&operator(), None, Redrive::Retry).await.unwrap();
    assert_eq!(resumed.iter().map(|one| one.resource).collect::<Vec<_>>(), [first]);
    scene.let_pass(Duration::from_mins(2)).await;
    assert_eq!((scene.arrived()[&first].as_slice(), scene.dead_letter().await), (&WHOLE[..], 0));
}

/// Both replicas honour one event's `Retry-After`; the event's own back-off would begin with one
/// second.
#[tokio::test(start_paused = true)]
async fn receiver_that_asks_for_a_wait_gets_no_request_before() {
    let minute = Duration::from_mins(1);
    // The last row asks for more than the longest wait, which is five minutes.
    for (asked_for, waited) in [(2 * minute, 2 * minute), (60 * minute, 5 * minute)] {
        let scene = Scene::with(1).await;
        *scene.receiver.retry_after.lock().unwrap() = Some(asked_for);
        let sent = || scene.receiver.sent(scene.resources[0]);
        scene.let_pass(waited.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(sent(), 1, "before {waited:?}, asked for {asked_for:?}");
        scene.let_pass(Duration::from_secs(3)).await;
        assert_eq!(sent(), 2, "after {waited:?}, asked for {asked_for:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_relay_sends_nothing_under_an_expired_claim() {
    let slow = Fault::Delay { by: Duration::from_secs(4), late: Late::Completes };
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
