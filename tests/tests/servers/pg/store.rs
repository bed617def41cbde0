//! The store on real Postgres: repository, schedule, outbox and audit against their contract suites, each case
//! in a database of its own.

pub(super) mod world;

use broker_ports::testing::store;

use world::World;

#[tokio::test]
async fn the_repository_keeps_the_contract() {
    store::repository_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn the_schedule_keeps_the_contract() {
    store::schedule_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn the_outbox_keeps_the_contract() {
    store::outbox_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn the_audit_keeps_the_contract() {
    store::audit_suite().run(World::fresh).await.assert_passed();
}
