//! The neighbours on real Postgres: resolvers, token issuer and mesh against their contract suites, and what
//! only this adapter promises.

mod agents;
mod canary;
mod catalog;
mod races;
mod world;

use broker_ports::testing::{node_deregistrar, resolvers, token_issuer};

use world::World;

#[tokio::test]
async fn blueprints_keep_the_contract() {
    resolvers::blueprint_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn clouds_keep_the_contract() {
    resolvers::cloud_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn credentials_keep_the_contract() {
    resolvers::credential_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn assignments_keep_the_contract() {
    resolvers::assignment_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn labels_keep_the_contract() {
    resolvers::label_suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn the_token_issuer_keeps_the_contract() {
    token_issuer::suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn the_deregistrar_keeps_the_contract() {
    node_deregistrar::suite().run(World::fresh).await.assert_passed();
}

#[tokio::test]
async fn the_seams_keep_the_contract() {
    node_deregistrar::seams_suite().run(World::fresh).await.assert_passed();
}
