//! A runner that is told to stop in the middle of its work, and one whose servers do not answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker_app::{Probe, Runner};
use broker_domain::{Phase, ProvisionedResourceId};
use broker_render::ARMED_ANNOTATION;
use broker_tests::real::{PATIENCE, RealWorld};
use broker_tests::until;
use broker_tests::world::{NODE, STANDALONE, operator};
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

/// So little that a test can wait for it.
const HURRY: Duration = Duration::from_secs(1);

const SWEEP: Duration = Duration::from_millis(300);

/// Runs until the story is told.
async fn running(runner: Runner, story: impl Future<Output = ()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let run = runner.run(async move { drop(stopped.await) });
    let story = async {
        story.await;
        drop(stop);
    };
    let (ran, ()) = tokio::join!(run, story);
    ran.unwrap();
}

async fn until_it_says(probe: &Probe, words: &[&str]) {
    let mut said = String::new();
    until(format_args!("the probe to say {words:?}"), || {
        said = probe.check().err().map(|failure| failure.to_string()).unwrap_or_default();
        let told = words.iter().all(|words| said.contains(words)).then_some(());
        async move { told }
    })
    .await;
}

/// With its server back, the replica is content and its work goes on.
async fn assert_recovers(world: &Arc<RealWorld>, id: ProvisionedResourceId, probe: &Probe) {
    until("the probe to be content", || async { probe.check().ok() }).await;
    // Nobody waits for the lease of a pass that was cut off.
    world.let_leases_end().await;
    let turning = world.keep_turning();
    world.service.reconcile_now(&operator(), id).await.unwrap();
    until("it to be ready", || async {
        (world.get(id).await.phase() == Phase::Ready).then_some(())
    })
    .await;
    drop(turning);
}

#[tokio::test]
async fn a_hung_api_server_costs_a_pass_its_deadline_and_the_probe_names_it() {
    let world = Arc::new(RealWorld::new().await);
    let id = world.brought_to(Phase::Provisioning, &world.declaration(NODE)).await.id();
    let between = Between::of(&world).await;
    let runner = between.runner(HURRY, SWEEP).await;
    let probe = runner.probe();
    running(runner, async {
        until("the boot sweep", || async { probe.check().ok() }).await;
        let held = between.kubernetes.script().each(|_| true).before_forward().hold();
        until_it_says(&probe, &["the cluster failed", "no answer within 1s"]).await;
        world.service.reconcile_now(&operator(), id).await.unwrap();
        until("a pass to have ended", || async {
            let trouble = probe.report().troubles.get(&id)?.clone();
            (trouble.reason == "cluster_transient").then_some(())
        })
        .await;

        held.release();
        between.kubernetes.script().clear();
        assert_recovers(&world, id, &probe).await;
    })
    .await;
    world.assert_sound(id).await;
}

#[tokio::test]
async fn a_hung_postgres_costs_a_pass_its_deadline_and_the_probe_names_it() {
    let world = Arc::new(RealWorld::new().await);
    let id = world.brought_to(Phase::Provisioning, &world.declaration(NODE)).await.id();
    let between = Between::of(&world).await;
    let runner = between.runner(HURRY, SWEEP).await;
    let probe = runner.probe();
    let worker = between.reconciler(HURRY).await;
    let act = running(runner, async {
        until("the boot sweep", || async { probe.check().ok() }).await;
        let held = between.postgres.script().each(|_| true).before_forward().hold();
        until_it_says(&probe, &["the repository failed"]).await;
        let error = worker.reconcile(id).await.unwrap_err();
        assert_eq!(error.reason(), "schedule_unknown", "{error}");

        held.release();
        between.postgres.script().clear();
        assert_recovers(&world, id, &probe).await;
    });
    Box::pin(act).await;
    world.assert_sound(id).await;
}
