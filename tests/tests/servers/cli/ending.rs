//! Replicas that end in the middle of work, and their successors.

use broker_tests::HttpProxy;
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use rustix::process::Signal;

use super::process::Environment;

async fn leased(world: &RealWorld) -> i64 {
    let leased = "SELECT count(*) FROM plexsphere.provisioned_resource_schedule
        WHERE lease_owner IS NOT NULL";
    sqlx::query_scalar(leased).fetch_one(world.pool()).await.unwrap()
}

#[tokio::test]
async fn sigterm_lets_a_pass_finish_and_releases_its_lease() {
    let world = RealWorld::new().await;
    let cluster = HttpProxy::to(world.broker.client.clone()).await;
    let mut held = cluster.script().first(|it| it.verb == "PATCH").before_forward().hold();
    let replica = Environment::new(&world.database().url(), &cluster.kubeconfig()).start();
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
