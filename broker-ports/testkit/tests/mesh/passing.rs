//! Every in-memory adapter passes its contract suites.

use broker_testkit::{Suite, clock, event_sink, node_deregistrar, resolvers, token_issuer};

use super::worlds::World;

async fn assert_passes(suite: Suite<World>) {
    suite.run(async || World::fresh()).await.assert_passed();
}

#[tokio::test]
async fn memory_tokens_pass_the_contract_suite() {
    assert_passes(token_issuer::suite()).await;
}

#[tokio::test]
async fn memory_mesh_passes_the_contract_suites() {
    assert_passes(node_deregistrar::suite()).await;
    assert_passes(node_deregistrar::seams_suite()).await;
}

#[tokio::test]
async fn recording_event_sink_passes_the_contract_suite() {
    assert_passes(event_sink::suite()).await;
}

#[tokio::test]
async fn clock_and_ids_pass_the_contract_suites() {
    assert_passes(clock::clock_suite()).await;
    assert_passes(clock::id_source_suite()).await;
}

#[tokio::test]
async fn memory_platform_contexts_pass_the_contract_suites() {
    assert_passes(resolvers::blueprint_suite()).await;
    assert_passes(resolvers::cloud_suite()).await;
    assert_passes(resolvers::credential_suite()).await;
    assert_passes(resolvers::assignment_suite()).await;
    assert_passes(resolvers::resource_suite()).await;
}
