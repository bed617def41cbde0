//! A thousand resources: what one broken among them costs the others, and what it costs to look at all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_app::RunnerConfig;
use broker_domain::{BlueprintVersionId, MeshRole, Phase, ProvisionedResourceId};
use broker_memory::{Behaviour, Verb};
use broker_ports::{
    BlueprintResolver, BlueprintVersionView, ListQuery, PageSize, PortError, PortName, Repository,
};
use broker_tests::world::{NODE, STANDALONE, World, declaration, operator, runner_config};
use tokio::sync::oneshot;

const CROWD: usize = 1_000;

/// Blueprints that are odd, each in its own way.
const UNREADABLE: u128 = 0xd1;
const PANICKING: u128 = 0xd2;
const HUNG: u128 = 0xd3;
const FORBIDDEN: u128 = 0xd4;

/// A resolver with some odd blueprints.
struct Odd(Arc<dyn BlueprintResolver>);

#[async_trait]
impl BlueprintResolver for Odd {
    async fn resolve(
        &self,
        asked: BlueprintVersionId,
    ) -> Result<Option<Arc<BlueprintVersionView>>, PortError> {
        match asked.as_uuid().as_u128() {
            UNREADABLE => Err(PortError::rejected("spec.versions: none is served")),
            PANICKING => panic!("out of bounds"),
            HUNG => std::future::pending().await,
            _ => self.0.resolve(asked).await,
        }
    }
}

/// Declares so many of a blueprint.
async fn declare(world: &World, blueprint: u128, count: usize) -> Vec<ProvisionedResourceId> {
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        ids.push(world.declare(&declaration(blueprint)).await.unwrap().id());
    }
    ids
}

/// Rounds until all of them are in a phase.
async fn bring(world: &World, ids: &[ProvisionedResourceId], phase: Phase) {
    for _ in 0..8 {
        assert!(world.round_of(ids).await.is_empty());
        if count(world, phase).await == ids.len() {
            return;
        }
    }
    panic!("not all came into {phase}");
}

/// How many resources are in a phase.
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
async fn one_broken_resource_costs_the_others_no_more_than_one_worker() {
    let broken = [
        (UNREADABLE, "blueprint_resolver_rejected"),
        (PANICKING, "blueprint_resolver_transient"),
        (HUNG, "blueprint_resolver_transient"),
        (FORBIDDEN, "cluster_rejected"),
    ];
    let mut world = World::new();
    let mut expected = BTreeMap::new();
    for (blueprint, reason) in broken {
        world.publish(blueprint, "Odd", "odds", MeshRole::Standalone, r#"{"parameters":[]}"#);
        expected.insert(declare(&world, blueprint, 1).await[0], reason);
    }
    world.cluster.forbid(Verb::Patch, "Odd");
    world.rewire(|ports| ports.blueprints = Arc::new(Odd(ports.blueprints.clone())));
    for resource in declare(&world, STANDALONE, CROWD).await {
        world.cluster.behave_for(resource, Behaviour::ready_after(0).composing(0));
    }
    // The one that hangs can hold up one of two workers; through the other all get by.
    let config = RunnerConfig { workers_per_lane: 2, ..runner_config() };
    let runner = world.runner_with(config);
    let probe = runner.probe();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = runner.run(async move { drop(stopped.await) });
    let story = async {
        for _ in 0..40 {
            world.let_time_pass().await;
            if count(&world, Phase::Ready).await == CROWD {
                break;
            }
        }
        assert_eq!(count(&world, Phase::Ready).await, CROWD);
        for _ in 0..8 {
            world.clock.advance(Duration::from_secs(10));
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        assert_eq!(count(&world, Phase::Pending).await, broken.len());
        let named: BTreeMap<_, _> =
            probe.report().troubles.iter().map(|(id, trouble)| (*id, trouble.reason)).collect();
        assert_eq!(named, expected, "the report names each, and nobody else");
        assert_eq!(probe.check(), Ok(()));
        drop(stop);
    };
    let (ended, ()) = tokio::join!(running, story);
    ended.unwrap();
}

/// Calls since a moment, by port and method.
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

/// Sweeps a world in which there is nothing to do, twice, and counts what that costs.
async fn expect_costs_nothing(world: &World, phase: Phase, why: &str) {
    assert_eq!(count(world, phase).await, CROWD, "{why}");
    world.sweep().await;
    world.clock.advance(Duration::from_mins(10));
    let (before, writes) = (world.faults.calls(), world.cluster.writes());
    let (lines, told) = (world.store.audit_trail().len(), world.sink.deliveries().len());
    let (work, report) = world.sweep().await;
    assert_eq!(work, [], "{why}");
    assert_eq!(
        (report.looked_at, report.settled),
        (CROWD, CROWD),
        "{why}: {:?}",
        report.by_reason()
    );
    assert_eq!(report.orphans, [], "{why}");
    assert_eq!(world.cluster.writes(), writes, "{why}");
    assert_eq!(world.store.audit_trail().len(), lines, "{why}: no row is written without a line");
    assert_eq!(world.sink.deliveries().len(), told, "{why}");

    let calls = calls_since(world, &before);
    let of_cluster: BTreeSet<_> = calls
        .keys()
        .filter(|(port, _)| *port == PortName::Cluster)
        .map(|(_, method)| *method)
        .collect();
    let batches = BTreeSet::from(["identity", "list_owned", "observe_many"]);
    assert!(of_cluster.is_subset(&batches), "{why}: {calls:?}");
    let times = |method| calls.get(&(PortName::Cluster, method)).copied().unwrap_or_default();
    assert_eq!(times("observe_many"), 1, "{why}: one for the page");
    let asked_of_store: BTreeSet<_> = calls
        .keys()
        .filter(|(port, _)| matches!(port, PortName::Repository | PortName::Schedule))
        .map(|(_, method)| *method)
        .collect();
    assert_eq!(asked_of_store, BTreeSet::from(["brakes", "list", "sweep_page"]), "{why}");
    let others = [PortName::TokenIssuer, PortName::AuditSink];
    assert!(calls.keys().all(|(port, _)| !others.contains(port)), "{why}: {calls:?}");
}

/// A thousand, fifty of them Nodes.
async fn crowd(
    world: &World,
    buckets: &Behaviour,
    nodes: &Behaviour,
) -> Vec<ProvisionedResourceId> {
    let mut ids = Vec::with_capacity(CROWD);
    for (blueprint, count, behaviour) in [(STANDALONE, CROWD - 50, buckets), (NODE, 50, nodes)] {
        for resource in declare(world, blueprint, count).await {
            world.cluster.behave_for(resource, behaviour.clone());
            ids.push(resource);
        }
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn sweeping_a_thousand_that_are_ready_costs_nothing() {
    let world = World::new();
    let ready = Behaviour::ready_after(1);
    // That fifty have something composed is enough to look at, and spares the simulated cluster long lists.
    let ids = crowd(&world, &ready.clone().composing(0), &ready).await;
    bring(&world, &ids, Phase::Ready).await;
    expect_costs_nothing(&world, Phase::Ready, "converged").await;
}

#[tokio::test(start_paused = true)]
async fn sweeping_a_thousand_that_wait_in_provisioning_costs_nothing() {
    let world = World::new();
    // Each has something composed to wait for: what composes nothing is ready at once.
    let waiting = Behaviour::never_ready();
    let ids = crowd(&world, &waiting, &waiting).await;
    bring(&world, &ids, Phase::Provisioning).await;
    assert!(world.round_of(&ids).await.is_empty(), "what was composed is put on record");
    expect_costs_nothing(&world, Phase::Provisioning, "provisioning").await;
}

#[tokio::test(start_paused = true)]
async fn sweeping_a_thousand_that_wait_for_a_namespace_costs_nothing() {
    let world = World::new();
    world.place(false);
    let ids = declare(&world, STANDALONE, CROWD).await;
    assert!(world.round_of(&ids).await.is_empty());
    expect_costs_nothing(&world, Phase::Pending, "no namespace").await;
}

#[tokio::test(start_paused = true)]
async fn sweeping_a_thousand_that_wait_for_their_deletion_costs_nothing() {
    let world = World::new();
    let ids = declare(&world, STANDALONE, CROWD).await;
    for resource in &ids {
        world.cluster.behave_for(*resource, Behaviour::ready_after(0).composing(0));
    }
    bring(&world, &ids, Phase::Ready).await;
    for resource in &ids {
        world.cluster.hold(&world.xr(&world.get(*resource).await), "example.org/held");
        world.service.deprovision(&operator(), *resource).await.unwrap();
    }
    bring(&world, &ids, Phase::Deprovisioning).await;
    expect_costs_nothing(&world, Phase::Deprovisioning, "being deleted").await;
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_runs_out_of_time_says_so_and_the_next_one_goes_on() {
    let world = World::new();
    world.place(false);
    let ids = declare(&world, STANDALONE, CROWD + 10).await;
    let (_, first) = world.sweeper.sweep_within(Duration::ZERO).await.unwrap();
    assert_eq!((first.looked_at, first.complete), (CROWD, false));
    assert_eq!(first.deferred_after, ids.iter().copied().nth(CROWD - 1));
    let (_, second) = world.sweeper.sweep_within(Duration::ZERO).await.unwrap();
    assert_eq!((second.looked_at, second.deferred_after), (10, None));
    let (_, third) = world.sweeper.sweep().await.unwrap();
    assert_eq!((third.looked_at, third.complete), (CROWD + 10, true));
}
