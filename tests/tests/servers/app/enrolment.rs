//! The enrolment of a Node, which the cluster does not hint at.

use broker_domain::Phase;
use broker_tests::real::RealWorld;
use broker_tests::until;
use broker_tests::world::NODE;

#[tokio::test]
async fn enrolled_node_is_noticed_without_a_sweep() {
    let world = RealWorld::new().await;
    let id = world.declare_until(Phase::Enrolling, &world.declaration(NODE)).await.id();
    let runner = world.runner_without_sweeps("replica");
    let scenario = async {
        until("the runner to wait for the Node", || async {
            let idle = "SELECT due_at IS NULL AND lease_owner IS NULL
                FROM plexsphere.provisioned_resource_schedule WHERE provisioned_resource_id = $1";
            let idle = sqlx::query_scalar::<_, bool>(idle).bind(id.as_uuid());
            idle.fetch_one(world.pool()).await.unwrap().then_some(())
        })
        .await;
        assert_eq!(world.get(id).await.phase(), Phase::Enrolling);

        world.turn().await; // The agent boots, and nothing on the cluster changes.
        until("the Node to be noticed", || async {
            (world.get(id).await.phase() == Phase::Ready).then_some(())
        })
        .await;
    };
    runner.run(scenario).await.unwrap();
}
