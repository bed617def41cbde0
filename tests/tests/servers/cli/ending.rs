//! How replicas end in the middle of work, and what the next one finds.

use std::sync::Arc;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, STANDALONE};
use broker_tests::{HttpProxy, until};
use rustix::process::Signal;

use super::process::Surroundings;

async fn arrives(world: &RealWorld, id: ProvisionedResourceId, phase: Phase) {
    until(format_args!("{id} to be {phase}"), || async {
        (world.get(id).await.phase() == phase).then_some(())
    })
    .await;
}

/// How many resources belong to a worker.
async fn leased(world: &RealWorld) -> i64 {
    let leased = "SELECT count(*) FROM plexsphere.provisioned_resource_schedule
        WHERE lease_owner IS NOT NULL";
    sqlx::query_scalar(leased).fetch_one(world.pool()).await.unwrap()
}

#[tokio::test]
async fn sigterm_in_the_middle_of_a_pass_lets_it_finish_and_gives_its_lease_back() {
    let world = RealWorld::new().await;
    let cluster = HttpProxy::to(world.broker.client.clone()).await;
    let mut held = cluster.script().first(|it| it.verb == "PATCH").before_forward().hold();
    let replica = Surroundings::new(&world.database().url(), &cluster.kubeconfig()).start();
    replica.ready().await;
    world.declare(&world.declaration(NODE)).await.unwrap();
    held.reached().await;
    assert_eq!(leased(&world).await, 1);

    replica.signal(Signal::TERM);
    replica.logged("told to stop").await;
    assert_eq!(replica.unready().await, "provisioning-broker-reconcile: the replica is stopping\n");
    held.release();

    let ended = replica.ended().await;
    assert_eq!((ended.code, ended.errors.as_slice()), (Some(0), &[][..]));
    assert!(ended.log.last().unwrap().contains(r#""message":"stopped""#), "{:?}", ended.log);
    assert_eq!(leased(&world).await, 0);
}

#[tokio::test]
async fn two_replicas_share_the_work_and_do_nothing_twice() {
    let world = Arc::new(RealWorld::new().await);
    let turning = world.keep_turning();
    let kubeconfig = world.kubeconfig();
    let surroundings = Surroundings::new(&world.database().url(), &kubeconfig);
    let replicas = [surroundings.start(), surroundings.start()];
    let mut ids = Vec::new();
    for number in 0..8 {
        let blueprint = if number % 2 == 0 { NODE } else { STANDALONE };
        ids.push(world.declare(&world.declaration(blueprint)).await.unwrap().id());
    }
    for id in &ids {
        arrives(&world, *id, Phase::Ready).await;
    }
    for replica in replicas {
        replica.stop().await;
    }
    drop(turning);
    world.assert_all_sound(&ids).await;
    assert_eq!(leased(&world).await, 0);
}

#[tokio::test]
async fn a_replica_that_was_killed_is_followed_by_one_that_goes_on() {
    let world = Arc::new(RealWorld::new().await);
    let cluster = HttpProxy::to(world.broker.client.clone()).await;
    let surroundings = Surroundings::new(&world.database().url(), &cluster.kubeconfig());
    let first = surroundings.start();
    first.ready().await;
    // The third write: what was sent has arrived, and nobody is there for the answer.
    cluster.script().first(|it| it.verb == "PATCH").before_answer().kill(first.id());
    let id = world.declare(&world.declaration(NODE)).await.unwrap().id();
    let ended = first.ended().await;
    assert_eq!(ended.code, None, "it was killed");
    assert_eq!(leased(&world).await, 1, "it had no time to give anything back");

    let turning = world.keep_turning();
    let second = surroundings.start();
    second.ready().await;
    world.let_leases_end().await;
    arrives(&world, id, Phase::Ready).await;
    second.stop().await;
    drop(turning);
    world.assert_all_sound(&[id]).await;
}
