//! The runner at work: from declaration to delivered events, with nobody calling a pass by hand.

use std::time::Duration;

use broker_app::RunnerConfig;
use broker_domain::EventType::{Deleted, Deleting, Ready, Requested};
use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::PortName;
use broker_ports::testing::builders::id;
use broker_ports::testing::faults::{Fault, FaultPlan};
use broker_tests::world::{NODE, STANDALONE, World, declaration, operator, runner_config};
use serde_json::Value;
use tokio::sync::oneshot;

/// Lets time pass until every resource is in a phase.
async fn until_all(world: &World, ids: &[ProvisionedResourceId], phase: Phase) {
    for _ in 0..400 {
        world.let_time_pass().await;
        let mut there = 0;
        for id in ids {
            there += usize::from(world.get(*id).await.phase() == phase);
        }
        if there == ids.len() {
            return;
        }
    }
    panic!("not all of {} resources got to {phase}", ids.len());
}

#[tokio::test(start_paused = true)]
async fn resources_come_and_go_and_every_event_is_delivered_in_order() {
    let world = World::new();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = world.runner().run(async move { drop(stopped.await) });
    let story = async {
        let mut ids = Vec::new();
        for number in 0..12_u128 {
            let blueprint = if number % 3 == 0 { STANDALONE } else { NODE };
            ids.push(world.declare(&declaration(blueprint)).await.unwrap().id());
        }
        until_all(&world, &ids, Phase::Ready).await;
        for id in &ids {
            world.service.deprovision(&operator(), *id).await.unwrap();
        }
        until_all(&world, &ids, Phase::Deleted).await;
        for _ in 0..20 {
            world.let_time_pass().await;
        }
        stop.send(()).unwrap();
        ids
    };
    let (ended, ids) = tokio::join!(running, story);
    ended.unwrap();

    assert!(world.standing().is_empty(), "{:?}", world.standing());
    for id in ids {
        let told = world.sink.deliveries_of(id);
        let types: Vec<_> = told.iter().map(|envelope| envelope.event_type).collect();
        assert_eq!(types, [Requested, Ready, Deleting, Deleted]);
        let sequences: Vec<_> = told.iter().map(|envelope| envelope.sequence).collect();
        assert_eq!(sequences, [1, 2, 3, 4]);
        for envelope in &told {
            let json: Value = serde_json::from_slice(&envelope.json).unwrap();
            assert_eq!(json["specversion"], "1.0");
            assert_eq!(json["id"], envelope.event_id.to_string());
            assert_eq!(json["source"], "/provisioning-broker");
            assert_eq!(json["type"], envelope.event_type.as_str());
            assert_eq!(json["subject"], id.to_string());
            assert_eq!(json["data"]["provisioned_resource_id"], id.to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_runner_without_its_cluster_does_not_start() {
    let world = World::new();
    world.cluster.take_down();
    let refused = world.runner().run(std::future::pending()).await.unwrap_err();
    assert!(refused.to_string().starts_with("the boot sweep failed"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_probe_tells_of_a_cluster_that_went_away_and_came_back() {
    let world = World::new();
    let runner = world.runner();
    let probe = runner.probe();
    let failure = probe.check().unwrap_err().to_string();
    assert_eq!(failure, "provisioning-broker-reconcile: no sweep has finished yet");
    let (stop, stopped) = oneshot::channel::<()>();
    let running = runner.run(async move { drop(stopped.await) });
    let story = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(probe.check(), Ok(()));
        world.cluster.take_down();
        tokio::time::sleep(Duration::from_secs(31)).await;
        let failure = probe.check().unwrap_err().to_string();
        assert!(
            failure.starts_with("provisioning-broker-reconcile: the cluster failed"),
            "{failure}"
        );
        world.cluster.bring_back();
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(probe.check(), Ok(()));
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, story);
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_broken_resource_does_not_hold_up_the_others() {
    let world = World::new();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = world.runner().run(async move { drop(stopped.await) });
    let story = async {
        let broken = world.declare(&declaration(NODE)).await.unwrap().id();
        world.neighbours.withdraw(broker_tests::world::project(), id(4));
        world.let_time_pass().await;
        world.neighbours.assign(broker_tests::world::project(), id(4));
        world.cluster.forbid(broker_ports::memory::Verb::Patch, "Bucket");
        let stuck = world.declare(&declaration(STANDALONE)).await.unwrap().id();
        let mut ids = vec![broken];
        for _ in 0..10 {
            ids.push(world.declare(&declaration(NODE)).await.unwrap().id());
        }
        until_all(&world, &ids, Phase::Ready).await;
        assert_eq!(world.get(stuck).await.phase(), Phase::Pending);
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, story);
    ended.unwrap();
}

/// A runner that never sweeps again: what it does, it does because it was told to or because it is due.
fn without_sweeps() -> RunnerConfig {
    RunnerConfig { sweep_interval: Duration::from_hours(24), ..runner_config() }
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_changes_something_and_fails_waits_for_its_next_attempt() {
    // Each attempt touches the shell that it finds, which the watch tells, and then gets no token.
    let dead = FaultPlan::none().from_call(PortName::TokenIssuer, "issue", 1, Fault::BeforeEffect);
    let world = World::with_faults(dead);
    let resource = world.declare(&declaration(NODE)).await.unwrap();
    let attempts = || world.faults.calls().get(&(PortName::TokenIssuer, "issue")).copied();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = world.runner_with(without_sweeps()).run(async move { drop(stopped.await) });
    let story = async {
        // The clock stands still, so that there can be no second attempt; only turns are taken.
        for _ in 0..2_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(attempts(), Some(1));

        // What somebody else does meanwhile is seen at the next attempt, without a sweep.
        world.cluster.delete_in_background(&world.xr(&resource));
        world.cluster.settle(5);
        for _ in 0..2_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(attempts(), Some(1), "it is no reason to hurry");
        world.faults.heal();
        until_all(&world, &[resource.id()], Phase::Ready).await;
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, story);
    ended.unwrap();
}
