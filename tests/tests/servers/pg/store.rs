//! The store on real Postgres: repository, schedule, outbox and audit against their contract
//! suites, and this adapter's additional promises.

mod create_in;
mod watermark;
pub(crate) mod world;

use std::sync::Arc;

use broker_testkit::{Suite, store};

use super::fresh_database;
use world::World;

/// Every case in its own world, all in one database.
async fn assert_contract(suite: Suite<World>) {
    let database = Arc::new(fresh_database().await);
    suite.run(|| World::emptied(&database)).await.assert_passed();
}

#[tokio::test]
async fn the_repository_keeps_the_contract() {
    assert_contract(store::repository_suite()).await;
}

#[tokio::test]
async fn the_schedule_keeps_the_contract() {
    assert_contract(store::schedule_suite()).await;
}

#[tokio::test]
async fn the_outbox_keeps_the_contract() {
    assert_contract(store::outbox_suite()).await;
}

#[tokio::test]
async fn the_audit_keeps_the_contract() {
    assert_contract(store::audit_suite()).await;
}
