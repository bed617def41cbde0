//! A thousand resources: broken ones do not delay the others, and a sweep over all costs few calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_app::explain::Verdict;
use broker_domain::{BlueprintVersionId, MeshRole, Phase};
use broker_memory::{Behaviour, Verb};
use broker_ports::{
    BlueprintResolver, BlueprintState, BlueprintVersionView, ListQuery, PageSize, PortError,
    PortName, Repository,
};
use broker_testkit::faults::FaultPlan;
use broker_tests::world::{
    NODE, STANDALONE, World, background, config_with, declaration, operator,
};

const FLEET_SIZE: usize = 1_000;

/// Four blueprints, named after their faults.
const UNREADABLE: u128 = 0xd1;
const PANICKING: u128 = 0xd2;
const HUNG: u128 = 0xd3;
const FORBIDDEN: u128 = 0xd4;

/// A resolver with some faulty blueprints.
struct FaultyBlueprints(Arc<dyn BlueprintResolver>);

#[async_trait]
impl BlueprintResolver for FaultyBlueprints {
    async fn resolve(
        &self,
        id: BlueprintVersionId,
    ) -> Result<Option<Arc<BlueprintVersionView>>, PortError> {
        match id.as_uuid().as_u128() {
            UNREADABLE => Err(PortError::rejected("spec.versions: none is served")),
            PANICKING => panic!("out of bounds"),
            HUNG => std::future::pending().await,
            _ => self.0.resolve(id).await,
        }
    }

    async fn state(&self, id: BlueprintVersionId) -> Result<Option<BlueprintState>, PortError> {
        self.0.state(id).await
    }
}

async fn count(world: &World, phase: Phase) -> usize {
    let mut query = ListQuery::new(PageSize::MAX).in_phase(phase);
    let mut count = 0;
    loop {
        let page = world.store.list(&query).await.unwrap();
        count += page.resources.len();
        match page.next {
            Some(next) => query = query.after(next),
            None => return count,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn broken_resource_costs_others_at_most_one_worker() {
    let broken = [
        (UNREADABLE, "blueprint_resolver_rejected"),
        (PANICKING, "blueprint_resolver_transient"),
        (HUNG, "blueprint_resolver_transient"),
        (FORBIDDEN, "cluster_rejected"),
    ];
    let mut world = World::new();
    let mut expected = BTreeMap::new();
    for (blueprint, reason) in broken {
        world.publish(
            blueprint,
            "Faulty",
            "faulties",
            MeshRole::Standalone,
            r#"{"parameters":[]}"#,
        );
        expected.insert(world.declare_many(1, &declaration(blueprint)).await[0], reason);
    }
    world.cluster.forbid(Verb::Patch, "Faulty");
    world.rewire(|ports| ports.blueprints = Arc::new(FaultyBlueprints(ports.blueprints.clone())));
    for resource in world.declare_many(FLEET_SIZE, &declaration(STANDALONE)).await {
        world.cluster.behave_for(resource, Behaviour::ready_after(0).composing(0));
    }
    // The hanging resource can block one of two workers; the others pass through the second.
    let runner = world.runner_with(config_with(|config| config.workers_per_lane = 2));
    let probe = runner.probe();
    background(runner, async {
        for _ in 0..40 {
            world.let_time_pass().await;
            if count(&world, Phase::Ready).await == FLEET_SIZE {
                break;
            }
        }
        assert_eq!(count(&world, Phase::Ready).await, FLEET_SIZE);
        for _ in 0..8 {
            world.clock.advance(Duration::from_secs(10));
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        assert_eq!(count(&world, Phase::Pending).await, broken.len());
        let reported: BTreeMap<_, _> =
            probe.report().errors.iter().map(|(id, error)| (*id, error.reason)).collect();
        assert_eq!(reported, expected, "the report names each of them and no other");
        assert_eq!(probe.check(), Ok(()));
    })
    .await;
}

fn calls_since(
    world: &World,
    before: &BTreeMap<(PortName, &'static str), u64>,
) -> BTreeMap<(PortName, &'static str), u64> {
    let mut calls = world.faults.calls();
    for (method, earlier) in before {
        if let Some(count) = calls.get_mut(method) {
            *count -= earlier;
        }
    }
    calls.retain(|_, count| *count > 0);
    calls
}

/// A sweep and `explain_all` over 950 standalone resources and 50 Nodes. The servers tier tests
/// waiting resources.
#[tokio::test(start_paused = true)]
async fn sweep_of_a_thousand_ready_resources_writes_nothing() {
    let world = World::new();
    let mut ids = world.declare_many(FLEET_SIZE - 50, &declaration(STANDALONE)).await;
    // Only the Nodes compose objects, which keeps the lists of the simulated cluster short.
    for resource in &ids {
        world.cluster.behave_for(*resource, Behaviour::ready_after(1).composing(0));
    }
    ids.extend(world.declare_many(50, &declaration(NODE)).await);
    for _ in 0..6 {
        assert!(world.round_of(&ids).await.is_empty());
    }
    assert_eq!(count(&world, Phase::Ready).await, FLEET_SIZE);
    world.sweep().await;
    world.clock.advance(Duration::from_mins(10));
    let (before, writes) = (world.faults.calls(), world.cluster.writes());
    let (lines, delivered) = (world.store.audit_trail().len(), world.sink.deliveries().len());
    let (work, report) = world.sweep().await;
    assert_eq!(work, []);
    let by_reason = report.by_reason();
    assert_eq!((report.looked_at, report.settled), (FLEET_SIZE, FLEET_SIZE), "{by_reason:?}");
    assert_eq!(report.orphans, []);
    assert_eq!(world.cluster.writes(), writes);
    assert_eq!(world.store.audit_trail().len(), lines, "no row is written without a line");
    assert_eq!(world.sink.deliveries().len(), delivered);

    let calls = calls_since(&world, &before);
    let methods_called = |ports: &[PortName]| -> BTreeSet<_> {
        let called = calls.keys().filter(|(port, _)| ports.contains(port));
        called.map(|(_, method)| *method).collect()
    };
    let batches = BTreeSet::from(["identity", "list_owned", "observe_many"]);
    assert!(methods_called(&[PortName::Cluster]).is_subset(&batches), "{calls:?}");
    assert_eq!(calls[&(PortName::Cluster, "observe_many")], 1, "one call for the page");
    let store_calls = methods_called(&[PortName::Repository, PortName::Schedule]);
    assert_eq!(store_calls, BTreeSet::from(["brakes", "list", "shared_configs", "sweep_page"]));
    let other_calls = methods_called(&[PortName::TokenIssuer, PortName::AuditSink]);
    assert!(other_calls.is_empty(), "{calls:?}");

    let (service, faults) = world.service_under(FaultPlan::none());
    let page = service.explain_all(&operator(), None, PageSize::MAX).await.unwrap();
    let ready =
        page.explanations.iter().filter(|explanation| explanation.verdict == Verdict::Ready);
    assert_eq!((ready.count(), page.next), (FLEET_SIZE, None));
    let (swept, explained): (u64, u64) = (calls.values().sum(), faults.calls().values().sum());
    assert!(explained <= swept, "{explained} port calls; a sweep makes {swept}");
}

#[tokio::test(start_paused = true)]
async fn timed_out_sweep_is_reported_and_the_next_continues() {
    let world = World::new();
    world.place(false);
    let ids = world.declare_many(FLEET_SIZE + 10, &declaration(STANDALONE)).await;
    let (_, first) = world.sweeper.sweep_within(Duration::ZERO).await.unwrap();
    assert_eq!((first.looked_at, first.complete), (FLEET_SIZE, false));
    assert_eq!(first.deferred_after, ids.iter().copied().nth(FLEET_SIZE - 1));
    let (_, second) = world.sweeper.sweep_within(Duration::ZERO).await.unwrap();
    assert_eq!((second.looked_at, second.deferred_after), (10, None));
    let (_, third) = world.sweeper.sweep().await.unwrap();
    assert_eq!((third.looked_at, third.complete), (FLEET_SIZE + 10, true));
}
