//! The platform adapters on real Postgres: resolvers, token issuer and mesh against their contract
//! suites, and this adapter's additional promises.

mod agents;
mod catalog;
mod races;
pub(crate) mod world;

use std::sync::Arc;

use broker_testkit::{Suite, node_deregistrar, resolvers, token_issuer};

use super::fresh_database;
use world::World;

/// One database for all cases of a suite, each with its own pool: no case reads another case's
/// rows.
async fn assert_contract(suite: Suite<World>) {
    let database = Arc::new(fresh_database().await);
    suite.run(async || World::over(&database)).await.assert_passed();
}

#[tokio::test]
async fn resolvers_keep_the_contract() {
    assert_contract(resolvers::blueprint_suite()).await;
    assert_contract(resolvers::cloud_suite()).await;
    assert_contract(resolvers::assignment_suite()).await;
    assert_contract(resolvers::resource_suite()).await;
}

#[tokio::test]
async fn credentials_keep_the_contract() {
    assert_contract(resolvers::credential_suite()).await;
}

#[tokio::test]
async fn the_token_issuer_keeps_the_contract() {
    assert_contract(token_issuer::suite()).await;
}

#[tokio::test]
async fn the_deregistrar_keeps_the_contract() {
    assert_contract(node_deregistrar::suite()).await;
}

#[tokio::test]
async fn the_seams_keep_the_contract() {
    assert_contract(node_deregistrar::seams_suite()).await;
}
