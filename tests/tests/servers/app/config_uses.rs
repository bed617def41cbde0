//! The ProviderConfig that a blueprint refers to, on a real API server.

use broker_domain::Phase;
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, operator};
use uuid::Uuid;

/// Stores how the blueprint's composed objects refer to their ProviderConfig.
async fn refer(world: &RealWorld, blueprint: u128, provider_config: &str) {
    let update = "UPDATE plexsphere.blueprint_versions SET provider_config = $2 WHERE id = $1";
    let update = sqlx::query(update).bind(Uuid::from_u128(blueprint)).bind(provider_config);
    assert_eq!(update.execute(world.pool()).await.unwrap().rows_affected(), 1);
}

#[tokio::test]
async fn node_with_a_config_of_the_platform_lives_and_leaves() {
    let world = RealWorld::new().await;
    refer(&world, NODE, "platform").await;
    let ready = world.declare_until(Phase::Ready, &world.declaration(NODE)).await;
    assert_eq!(ready.substrate().provider_config(), None);
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.until(ready.id(), Phase::Deleted).await;
}
