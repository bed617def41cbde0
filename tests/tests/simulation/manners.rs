//! The broker is a guest in its host's process.

use std::time::Duration;

use broker_app::BrokerConfig;
use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{PortName, Schedule};
use broker_testkit::faults::{Fault, FaultPlan, Late};
use broker_tests::world::{NODE, STANDALONE, World, background, config, config_with, declaration};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Declares resources of both kinds.
async fn declare(world: &World, count: u128) -> Vec<ProvisionedResourceId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let blueprint = if number % 4 == 0 { NODE } else { STANDALONE };
        ids.push(world.declare(&declaration(blueprint)).await.unwrap().id());
    }
    ids
}

/// The whole story of a few resources on whatever runtime this is, in real time.
async fn a_story() {
    let world = World::new();
    let runner = world.runner_with(config_with(|it| it.poll_interval = Duration::from_millis(5)));
    let alive = Handle::current().metrics().num_alive_tasks();
    background(runner, async {
        let ids = declare(&world, 8).await;
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            world.clock.advance(Duration::from_millis(250));
            world.cluster.tick();
            world.boot_agents();
            let mut ready = true;
            for id in &ids {
                ready &= world.get(*id).await.phase() == Phase::Ready;
            }
            if ready {
                return;
            }
        }
        panic!("not all became ready");
    })
    .await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), alive, "no task is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_on_a_multi_thread_runtime() {
    // Not on the thread that blocks, which would be as good as a single one.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(a_story());
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn the_host_can_still_install_its_own_subscriber_and_recorder() {
    a_story().await;
    metrics::set_global_recorder(metrics::NoopRecorder).expect("nobody installed a recorder");
    let none = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::set_global_default(none).expect("nobody installed a subscriber");
}

/// Runs over resources that nobody worked on yet, until so much time has passed.
async fn run_for(world: &World, config: BrokerConfig, time: Duration) {
    let runner = world.runner_with(config);
    let alive = Handle::current().metrics().num_alive_tasks();
    let stop = tokio::time::sleep(time);
    let ended = timeout(Duration::from_mins(10), runner.run(stop)).await;
    ended.expect("it stops when it is told to").unwrap();
    assert_eq!(Handle::current().metrics().num_alive_tasks(), alive, "no task is left");
}

#[tokio::test(start_paused = true)]
async fn stopping_under_load_lets_every_act_finish() {
    let slow = Fault::Delay { by: Duration::from_millis(40), late: Late::Lands };
    let world =
        World::with_faults(FaultPlan::none().from_call(PortName::Cluster, "apply", 1, slow));
    let ids = declare(&world, 100).await;
    // Each act is three slow applies: it is stopped in the middle of some of them.
    run_for(&world, config("replica-1"), Duration::from_millis(700)).await;
    assert_eq!(world.faults.adrift(), 0, "nothing is still under way");
    let mut begun = 0;
    for id in ids {
        let entry = world.store.entry(id).await.unwrap().unwrap();
        assert_eq!(entry.lease, None, "every lease was given back");
        let resource = world.get(id).await;
        let xr = world.cluster.object(&world.xr(&resource));
        begun += usize::from(xr.is_some());
        if let Some(xr) = xr {
            let armed = xr.pointer("/metadata/annotations/plexsphere.io~1armed");
            assert!(armed.is_some(), "no act is half done");
        }
    }
    assert!((1..100).contains(&begun), "{begun} of 100 were begun");
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_a_collaborator_that_hangs() {
    let hangs = Fault::Delay { by: Duration::from_hours(1), late: Late::Never };
    let world =
        World::with_faults(FaultPlan::none().from_call(PortName::Cluster, "apply", 1, hangs));
    let ids = declare(&world, 8).await;
    let config = config_with(|it| it.stop_within = Duration::from_secs(1));
    run_for(&world, config, Duration::from_secs(1)).await;
    // What was cut off still holds its leases, and another replica takes over when they end.
    world.let_leases_end();
    let other = world.replica("replica-2");
    for id in ids {
        other.reconcile(id).await.unwrap();
        assert!(world.cluster.stands(&world.xr(&world.get(id).await)));
    }
}
