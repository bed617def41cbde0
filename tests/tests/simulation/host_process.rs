//! The broker is a guest in its host's process.

use std::time::Duration;

use broker_app::BrokerConfig;
use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{PortName, Schedule};
use broker_testkit::faults::{Fault, FaultPlan, LateArrival};
use broker_tests::world::{NODE, STANDALONE, World, background, config, config_with, declaration};
use tokio::runtime::Handle;
use tokio::time::timeout;

async fn declare_mixed(world: &World, count: u128) -> Vec<ProvisionedResourceId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let blueprint = if number % 4 == 0 { NODE } else { STANDALONE };
        ids.push(world.declare(&declaration(blueprint)).await.unwrap().id());
    }
    ids
}

/// Asserts that no task of a runner is left. On a multi-thread runtime, the count may be one behind
/// for a moment: tokio wakes the owner of a `JoinSet` before it counts the task as ended.
async fn wait_for_alive_tasks(expected: usize) {
    for _ in 0..1_000 {
        if Handle::current().metrics().num_alive_tasks() == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), expected, "no task is left");
}

/// The lifetime of a few resources on the current runtime, in real time.
async fn run_until_ready() {
    let world = World::new();
    let runner =
        world.runner_with(config_with(|config| config.poll_interval = Duration::from_millis(10)));
    let alive = Handle::current().metrics().num_alive_tasks();
    background(runner, async {
        let ids = declare_mixed(&world, 8).await;
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
    wait_for_alive_tasks(alive).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_works_on_a_multi_thread_runtime() {
    // Not on the thread that blocks, which would make the runtime single-threaded.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(run_until_ready());
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn host_can_install_its_own_subscriber_and_recorder() {
    run_until_ready().await;
    metrics::set_global_recorder(metrics::NoopRecorder).expect("no recorder is installed");
    let none = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::set_global_default(none).expect("no subscriber is installed");
}

async fn run_for(world: &World, config: BrokerConfig, time: Duration) {
    let runner = world.runner_with(config);
    let alive = Handle::current().metrics().num_alive_tasks();
    let stop = tokio::time::sleep(time);
    let ended = timeout(Duration::from_mins(10), runner.run(stop)).await;
    ended.expect("the runner stops on request").unwrap();
    wait_for_alive_tasks(alive).await;
}

#[tokio::test(start_paused = true)]
async fn stopping_under_load_lets_every_act_finish() {
    let slow = Fault::Delay { by: Duration::from_millis(40), late: LateArrival::Completes };
    let world =
        World::with_faults(FaultPlan::none().from_call(PortName::Cluster, "apply", 1, slow));
    let ids = declare_mixed(&world, 100).await;
    // Each act is three slow applies, so the runner stops during some acts.
    run_for(&world, config("replica-1"), Duration::from_millis(700)).await;
    assert_eq!(world.faults.pending_requests(), 0, "nothing is in flight");
    let mut started = 0;
    for id in ids {
        let entry = world.store.entry(id).await.unwrap().unwrap();
        assert_eq!(entry.lease, None, "every lease was given back");
        let resource = world.get(id).await;
        let xr = world.cluster.object(&world.xr(&resource));
        started += usize::from(xr.is_some());
        if let Some(xr) = xr {
            let armed = xr.pointer("/metadata/annotations/plexsphere.io~1armed");
            assert!(armed.is_some(), "no act is incomplete");
        }
    }
    assert!((1..100).contains(&started), "{started} of 100 were started");
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_a_collaborator_that_hangs() {
    let hangs = Fault::Delay { by: Duration::from_hours(1), late: LateArrival::Never };
    let world =
        World::with_faults(FaultPlan::none().from_call(PortName::Cluster, "apply", 1, hangs));
    let ids = declare_mixed(&world, 8).await;
    let config = config_with(|config| config.stop_within = Duration::from_secs(1));
    run_for(&world, config, Duration::from_secs(1)).await;
    // Interrupted resources keep their leases, and another replica takes over when those end.
    world.expire_leases();
    let other = world.replica("replica-2");
    for id in ids {
        other.reconcile(id).await.unwrap();
        assert!(world.cluster.exists(&world.xr(&world.get(id).await)));
    }
}
