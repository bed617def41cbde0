//! The ProviderConfig that a blueprint refers to, on a real API server.

use broker_domain::Phase;
use broker_ports::{Repository as _, SharedConfigRef};
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, STANDALONE, operator};
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
    world.assert_invariants(ready.id()).await;
}

#[tokio::test]
async fn two_resources_share_a_config_until_the_last_one_leaves() {
    let world = RealWorld::new().await;
    refer(&world, STANDALONE, "shared:openstack").await;
    let declared = world.declaration(STANDALONE);
    let first = world.declare_until(Phase::Ready, &declared).await;
    let second = world.declare_until(Phase::Ready, &declared).await;
    let config = first.substrate().provider_config().unwrap().clone();
    assert_eq!(second.substrate().provider_config(), Some(&config));
    assert_eq!(config.name(), "openstack");
    let name = SharedConfigRef::new(first.project_id(), config);
    let store = broker_pg::PgStore::new(world.pool().clone());
    let state = async || {
        let found = store.shared_configs(std::slice::from_ref(&name)).await.unwrap();
        let config = found.into_iter().next().unwrap();
        (config.in_use, config.deleting.is_some())
    };
    world.service.deprovision(&operator(), first.id()).await.unwrap();
    world.until(first.id(), Phase::Deleted).await;
    world.assert_all_invariants(&[first.id(), second.id()]).await;
    assert_eq!(state().await, (true, false));
    world.service.deprovision(&operator(), second.id()).await.unwrap();
    world.until(second.id(), Phase::Deleted).await;
    broker_tests::until("the mark to be cleared", || async {
        world.turn().await;
        world.sweep().await;
        (state().await == (false, false)).then_some(())
    })
    .await;
    // Only an absence that was read clears the mark, so the object is gone. A new user gets another one.
    let third = world.declare_until(Phase::Ready, &declared).await;
    assert_eq!(third.substrate().provider_config().unwrap().name(), "openstack");
}
