//! The graceful shutdown of a replica during a pass.

use broker_tests::HttpProxy;
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use rustix::process::Signal;

use super::process::Environment;

async fn lease_count(world: &RealWorld) -> i64 {
    let leases = "SELECT count(*) FROM plexsphere.provisioned_resource_schedule
        WHERE lease_owner IS NOT NULL";
    sqlx::query_scalar(leases).fetch_one(world.pool()).await.unwrap()
}

#[tokio::test]
async fn sigterm_lets_a_pass_finish_and_releases_its_lease() {
    let world = RealWorld::new().await;
    let cluster = HttpProxy::start(world.broker.client.clone()).await;
    let mut held =
        cluster.script().first(|request| request.verb == "PATCH").before_forward().hold();
    let replica = Environment::new(&world.database().url(), &cluster.kubeconfig()).start();
    replica.ready().await;
    world.declare(&world.declaration(NODE)).await.unwrap();
    held.wait_until_held().await;
    assert_eq!(lease_count(&world).await, 1);

    replica.signal(Signal::TERM);
    replica.logged("received a stop signal").await;
    assert_eq!(replica.unready().await, "provisioning-broker-reconcile: the replica is stopping\n");
    held.release();

    let ended = replica.ended().await;
    assert_eq!((ended.code, ended.errors.as_slice()), (Some(0), &[][..]));
    assert!(ended.log.last().unwrap().contains(r#""message":"stopped""#), "{:?}", ended.log);
    assert_eq!(lease_count(&world).await, 0);
}
