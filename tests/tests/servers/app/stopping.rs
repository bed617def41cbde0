//! A runner that is told to stop in the middle of its work.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_render::ARMED_ANNOTATION;
use broker_tests::real::{PATIENCE, RealWorld};
use broker_tests::until;
use broker_tests::world::{NODE, STANDALONE};
use kube::ResourceExt;
use tokio::sync::oneshot;

use super::between::Between;

/// More than a runner has workers, so that some are not begun when it stops.
const MANY: usize = 24;

/// The apply at which it is told to stop: in the middle of several acts.
const APPLY: usize = 14;

async fn declared(world: &RealWorld) -> Vec<ProvisionedResourceId> {
    let mut ids = Vec::new();
    for number in 0..MANY {
        let blueprint = if number % 4 == 0 { STANDALONE } else { NODE };
        ids.push(world.declare(&world.declaration(blueprint)).await.unwrap().id());
    }
    ids
}

/// Runs it on a runtime of its own, so that whatever it leaves behind can be counted.
async fn run_alone(between: Between, stop: oneshot::Receiver<()>) -> Between {
    let on_its_own = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let between = runtime.block_on(async {
            let runner = between.runner(PATIENCE, Duration::from_secs(30)).await;
            runner.run(async move { drop(stop.await) }).await.unwrap();
            between
        });
        // Nobody uses the clients any more, so that their connections end; whatever is left is the runner's.
        runtime.block_on(async {
            until("every task of the runner to end", || async {
                (runtime.metrics().num_alive_tasks() == 0).then_some(())
            })
            .await;
        });
        between
    };
    tokio::task::spawn_blocking(on_its_own).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_under_load_lets_every_act_finish_and_leaves_nothing() {
    let world = Arc::new(RealWorld::new().await);
    let ids = declared(&world).await;
    let between = Between::of(&world).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let stop = Mutex::new(Some(stop));
    let applies = between.kubernetes.script().nth(APPLY, |request| request.verb == "PATCH");
    applies.before_forward().run(move || drop(stop.lock().unwrap().take()));
    let between = run_alone(between, stopped).await;

    let held: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM plexsphere.provisioned_resource_schedule WHERE lease_owner IS NOT NULL",
    )
    .fetch_one(world.pool())
    .await
    .unwrap();
    assert_eq!(held, 0, "every lease was given back");
    let mut begun = 0;
    for id in &ids {
        let Some(xr) = world.crossplane.composite(*id).await else { continue };
        begun += 1;
        assert!(xr.annotations().contains_key(ARMED_ANNOTATION), "no act is half done: {id}");
    }
    assert!((1..MANY).contains(&begun), "{begun} of {MANY} were begun");
    let applies = between.kubernetes.script().seen();
    let applies = applies.iter().filter(|request| request.verb == "PATCH").count();
    assert!(applies >= APPLY, "{applies} applies");

    // Whoever comes next goes on where it stopped.
    for id in ids.iter().take(4) {
        world.until(*id, Phase::Ready).await;
        world.assert_sound(*id).await;
    }
}
