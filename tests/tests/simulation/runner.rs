//! The runner at work: from declaration to delivered events, without manual passes.

use std::time::Duration;

use broker_domain::EventType::{Deleted, Deleting, Ready, Requested};
use broker_domain::{Phase, ProvisionedResourceId};
use broker_memory::HintDelivery;
use broker_ports::{Due, PortName, Schedule};
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, LateArrival};
use broker_tests::world::{
    NODE, STANDALONE, World, background, config, config_with, declaration, operator,
};
use serde_json::Value;

async fn wait_until_all(world: &World, ids: &[ProvisionedResourceId], phase: Phase) {
    for _ in 0..400 {
        world.let_time_pass().await;
        let mut count = 0;
        for id in ids {
            count += usize::from(world.get(*id).await.phase() == phase);
        }
        if count == ids.len() {
            return;
        }
    }
    panic!("not all of {} resources got to {phase}", ids.len());
}

#[tokio::test(start_paused = true)]
async fn every_event_of_a_lifecycle_is_delivered_in_order() {
    let world = World::new();
    let ids = background(world.runner(), async {
        let mut ids = Vec::new();
        for number in 0..12_u128 {
            let blueprint = if number % 3 == 0 { STANDALONE } else { NODE };
            ids.push(world.declare(&declaration(blueprint)).await.unwrap().id());
        }
        wait_until_all(&world, &ids, Phase::Ready).await;
        for id in &ids {
            world.service.deprovision(&operator(), *id).await.unwrap();
        }
        wait_until_all(&world, &ids, Phase::Deleted).await;
        for _ in 0..20 {
            world.let_time_pass().await;
        }
        ids
    })
    .await;

    assert!(world.existing_objects().is_empty(), "{:?}", world.existing_objects());
    for id in ids {
        let delivered = world.sink.deliveries_of(id);
        let types: Vec<_> = delivered.iter().map(|envelope| envelope.event_type).collect();
        assert_eq!(types, [Requested, Ready, Deleting, Deleted]);
        let sequences: Vec<_> = delivered.iter().map(|envelope| envelope.sequence).collect();
        assert_eq!(sequences, [1, 2, 3, 4]);
        for envelope in &delivered {
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
async fn runner_without_its_cluster_does_not_start() {
    let world = World::new();
    world.cluster.take_down();
    let refused = world.runner().run(std::future::pending()).await.unwrap_err();
    assert!(refused.to_string().starts_with("the boot sweep failed"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn broken_resource_does_not_delay_the_others() {
    let world = World::new();
    background(world.runner(), async {
        let broken = world.declare(&declaration(NODE)).await.unwrap().id();
        world.platform.withdraw(broker_tests::world::project(), id(4));
        world.let_time_pass().await;
        world.platform.assign(broker_tests::world::project(), id(4));
        world.cluster.forbid(broker_memory::Verb::Patch, "Bucket");
        let stuck = world.declare(&declaration(STANDALONE)).await.unwrap().id();
        let mut ids = vec![broken];
        for _ in 0..10 {
            ids.push(world.declare(&declaration(NODE)).await.unwrap().id());
        }
        wait_until_all(&world, &ids, Phase::Ready).await;
        assert_eq!(world.get(stuck).await.phase(), Phase::Pending);
    })
    .await;
}

/// Each attempt touches the shell, which the watch reports, and then gets no token. The store's
/// clock is stopped and no sweep follows, so nothing becomes due by time.
#[tokio::test(start_paused = true)]
async fn failing_pass_that_hints_at_itself_backs_off() {
    let issue = (PortName::TokenIssuer, "issue");
    let dead = FaultPlan::none().from_call(issue.0, issue.1, 1, Fault::BeforeEffect);
    let world = World::with_faults(dead);
    let id = world.declare(&declaration(NODE)).await.unwrap().id();
    let config = config_with(|config| config.sweep_interval = Duration::from_hours(1));
    background(world.runner_with(config), async {
        // Not at once; after 1, 2, 4 … 256 seconds; then every five minutes.
        for (millis, attempts) in [(900, 1), (511_000, 10), (2_700_000, 19)] {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            assert_eq!(world.faults.calls()[&issue], attempts, "after {millis} ms more");
        }
        world.faults.heal();
        tokio::time::sleep(Duration::from_mins(5)).await;
        wait_until_all(&world, &[id], Phase::Ready).await;
    })
    .await;
}

/// Resources are always due, and a claim takes longer than a pass: each claim finds finished
/// passes.
#[tokio::test(start_paused = true)]
async fn work_of_a_sweep_starts_during_constant_passes() {
    let step = Duration::from_millis(10);
    let slow = Fault::Delay { by: step, late: LateArrival::Completes };
    let plan = FaultPlan::none().from_call(PortName::Schedule, "claim", 1, slow);
    let world = World::with_faults(plan);
    let mut busy = Vec::new();
    for _ in 0..8 {
        busy.push(world.declare_until(Phase::Ready, &declaration(STANDALONE)).await.id());
    }
    let quiet = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    // Only a sweep can find the loss: the store's clock is stopped, and no hint arrives.
    world.cluster.deliver_hints(HintDelivery::Lost);
    let config = config("replica-1");
    let interval = config.sweep_interval;
    background(world.runner_with(config), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for sweep in 1..=2 {
            world.cluster.delete_in_background(&world.xr(&quiet));
            world.cluster.settle(5);
            assert!(!world.cluster.exists(&world.xr(&quiet)));
            let until = tokio::time::Instant::now() + interval;
            while tokio::time::Instant::now() < until {
                for id in &busy {
                    world.store.schedule(*id, Due::Now).await.unwrap();
                }
                tokio::time::sleep(step).await;
            }
            assert!(world.cluster.exists(&world.xr(&quiet)), "sweep {sweep} requested a pass");
        }
    })
    .await;
}
