//! Changes without a hint from the cluster are noticed without a sweep too.

use broker_domain::Phase;
use broker_tests::real::RealWorld;
use broker_tests::until;
use broker_tests::world::NODE;

#[tokio::test]
async fn enrolled_node_is_noticed_without_a_sweep() {
    let world = RealWorld::new().await;
    let id = world.declare_until(Phase::Enrolling, &world.declaration(NODE)).await.id();
    let runner = world.runner_without_sweeps("replica");
    let story = async {
        until("the runner to wait for the Node", || async {
            let resting = "SELECT due_at IS NULL AND lease_owner IS NULL
                FROM plexsphere.provisioned_resource_schedule WHERE provisioned_resource_id = $1";
            let resting = sqlx::query_scalar::<_, bool>(resting).bind(id.as_uuid());
            resting.fetch_one(world.pool()).await.unwrap().then_some(())
        })
        .await;
        assert_eq!(world.get(id).await.phase(), Phase::Enrolling);

        world.turn().await; // The agent boots, and nothing on the cluster changes.
        until("the Node to be noticed", || async {
            (world.get(id).await.phase() == Phase::Ready).then_some(())
        })
        .await;
    };
    runner.run(story).await.unwrap();
}
