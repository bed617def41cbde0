//! The runner at work: from declaration to delivered events, with nobody calling a pass by hand.

use std::time::Duration;

use broker_app::RunnerConfig;
use broker_domain::EventType::{Deleted, Deleting, Ready, Requested};
use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_memory::HintDelivery;
use broker_ports::{Due, ListQuery, PageSize, PortName, Schedule};
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, Late};
use broker_tests::world::{NODE, STANDALONE, World, beside, declaration, operator, runner_config};
use serde_json::{Value, json};

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
    let ids = beside(world.runner(), async {
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
        ids
    })
    .await;

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
    beside(runner, async {
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
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_broken_resource_does_not_hold_up_the_others() {
    let world = World::new();
    beside(world.runner(), async {
        let broken = world.declare(&declaration(NODE)).await.unwrap().id();
        world.neighbours.withdraw(broker_tests::world::project(), id(4));
        world.let_time_pass().await;
        world.neighbours.assign(broker_tests::world::project(), id(4));
        world.cluster.forbid(broker_memory::Verb::Patch, "Bucket");
        let stuck = world.declare(&declaration(STANDALONE)).await.unwrap().id();
        let mut ids = vec![broken];
        for _ in 0..10 {
            ids.push(world.declare(&declaration(NODE)).await.unwrap().id());
        }
        until_all(&world, &ids, Phase::Ready).await;
        assert_eq!(world.get(stuck).await.phase(), Phase::Pending);
    })
    .await;
}

/// A runner that never sweeps again: what it does, it does because it was told to or because it is due.
fn without_sweeps() -> RunnerConfig {
    RunnerConfig { sweep_interval: Duration::from_hours(24), ..runner_config() }
}

/// Time for passes and for hints, while the store's clock stands still: nothing becomes due by itself.
async fn without_anything_due(time: Duration) {
    tokio::time::sleep(time).await;
}

/// That a Node has left is told by nobody, least of all by the cluster.
#[tokio::test(start_paused = true)]
async fn a_teardown_waits_for_no_sweep() {
    let world = World::new();
    beside(world.runner_with(without_sweeps()), async {
        let id = world.declare(&declaration(NODE)).await.unwrap().id();
        until_all(&world, &[id], Phase::Ready).await;
        world.service.deprovision(&operator(), id).await.unwrap();
        until_all(&world, &[id], Phase::Deleted).await;
    })
    .await;
}

/// A world in which no token is issued, with a resource whose passes fail because of that, and how often they did.
async fn without_tokens() -> (World, ProvisionedResourceId) {
    let dead = FaultPlan::none().from_call(PortName::TokenIssuer, "issue", 1, Fault::BeforeEffect);
    let world = World::with_faults(dead);
    let resource = world.declare(&declaration(NODE)).await.unwrap().id();
    (world, resource)
}

fn attempts(world: &World) -> u64 {
    world.faults.calls().get(&(PortName::TokenIssuer, "issue")).copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_hint_wakes_a_resource_whose_last_pass_failed() {
    let (world, id) = without_tokens().await;
    // Nothing of what the passes do themselves comes back as a hint.
    world.cluster.deliver_hints(HintDelivery::Lost);
    beside(world.runner_with(without_sweeps()), async {
        without_anything_due(Duration::from_hours(1)).await;
        assert_eq!(attempts(&world), 1, "it waits for its next attempt");

        world.faults.heal();
        world.cluster.deliver_hints(HintDelivery::Prompt);
        let xr = world.xr(&world.get(id).await);
        world.cluster.patch_as("somebody", &xr, &json!({"metadata": {"annotations": {"a": "b"}}}));
        without_anything_due(Duration::from_millis(100)).await;
        assert_eq!(attempts(&world), 2, "somebody did something about it");
        until_all(&world, &[id], Phase::Ready).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_hints_at_itself_and_fails_does_not_go_round() {
    // Each attempt touches the shell that it finds, which the watch tells, and then gets no token.
    let (world, id) = without_tokens().await;
    beside(world.runner_with(without_sweeps()), async {
        without_anything_due(Duration::from_millis(900)).await;
        assert_eq!(attempts(&world), 1, "not at once");
        // After 1, 2, 4 … 256 seconds, and then every five minutes.
        without_anything_due(Duration::from_secs(511)).await;
        assert_eq!(attempts(&world), 10);
        without_anything_due(Duration::from_hours(1)).await;
        assert_eq!(attempts(&world), 10 + 12);

        world.faults.heal();
        without_anything_due(Duration::from_mins(5)).await;
        until_all(&world, &[id], Phase::Ready).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_flaps_cannot_spin() {
    let (world, id) = without_tokens().await;
    beside(world.runner_with(without_sweeps()), async {
        without_anything_due(Duration::from_millis(100)).await;
        let xr = world.xr(&world.get(id).await);
        for number in 0..6_000 {
            let flap = json!({"metadata": {"annotations": {"a": number.to_string()}}});
            world.cluster.patch_as("somebody", &xr, &flap);
            without_anything_due(Duration::from_millis(100)).await;
        }
        assert_eq!(attempts(&world), 10, "ten minutes of it cost as much as ten minutes without");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_stops_neither_sweeps_nor_lists() {
    let world = World::new();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.declare(&declaration(STANDALONE)).await.unwrap().id());
    }
    let (odd, sound) = (ids.remove(2), ids);
    assert!(world.store.spoil(odd));
    let runner = world.runner();
    let probe = runner.probe();
    beside(runner, async {
        until_all(&world, &sound, Phase::Ready).await;
        tokio::time::sleep(runner_config().sweep_interval * 2).await;
        let report = probe.report();
        assert!(report.complete, "the sweep went through");
        assert_eq!((report.looked_at, report.troubles.len()), (5, 1), "{:?}", report.troubles);
        let trouble = &report.troubles[&odd];
        assert_eq!((trouble.reason, trouble.infrastructure), ("invalid_input", false));
        assert!(trouble.message.contains(&odd.to_string()), "{}", trouble.message);
        assert_eq!(report.orphans, [], "what it may have left is not for us to judge");
        assert_eq!(probe.check(), Ok(()), "it is one resource's trouble");
    })
    .await;

    let page = world.service.list(&operator(), &ListQuery::new(PageSize::MAX)).await.unwrap();
    let listed: Vec<_> = page.resources.iter().map(ProvisionedResource::id).collect();
    assert_eq!(listed, sound);
    let named: Vec<_> = page.unreadable.iter().map(|row| row.id).collect();
    assert_eq!(named, [odd], "it is there, and nobody takes it for gone");
    let error = world.service.get(&operator(), odd).await.unwrap_err();
    assert_eq!(error.reason(), "invalid_input");
    assert!(broker_app::one_line(&error).contains(&odd.to_string()), "{error}");
}

/// Resources are always due, and a claim takes longer than a pass: each claim finds finished passes behind it.
#[tokio::test(start_paused = true)]
async fn sweeps_beside_passes_without_a_pause_start_their_work() {
    let moment = Duration::from_millis(10);
    let slow = Fault::Delay { by: moment, late: Late::Lands };
    let plan = FaultPlan::none().from_call(PortName::Schedule, "claim", 1, slow);
    let world = World::with_faults(plan);
    let mut busy = Vec::new();
    for _ in 0..8 {
        busy.push(world.brought_to(Phase::Ready, &declaration(STANDALONE)).await.id());
    }
    let quiet = world.brought_to(Phase::Ready, &declaration(STANDALONE)).await;
    // Only a sweep can find the loss: the store's clock stands still, and no hint arrives.
    world.cluster.deliver_hints(HintDelivery::Lost);
    let config = runner_config();
    let interval = config.sweep_interval;
    beside(world.runner_with(config), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for sweep in 1..=2 {
            world.cluster.delete_in_background(&world.xr(&quiet));
            world.cluster.settle(5);
            assert!(!world.cluster.stands(&world.xr(&quiet)));
            let until = tokio::time::Instant::now() + interval;
            while tokio::time::Instant::now() < until {
                for id in &busy {
                    world.store.schedule(*id, Due::Now).await.unwrap();
                }
                tokio::time::sleep(moment).await;
            }
            assert!(world.cluster.stands(&world.xr(&quiet)), "sweep {sweep} asked for a pass");
        }
    })
    .await;
}
