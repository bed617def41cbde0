//! Every in-memory adapter passes its contract suites.

use broker_testkit::{Suite, clock, event_sink, node_deregistrar, resolvers, token_issuer};

use super::worlds::World;

async fn keeps(suite: Suite<World>) {
    suite.run(async || World::fresh()).await.assert_passed();
}

#[tokio::test]
async fn memory_tokens_pass() {
    keeps(token_issuer::suite()).await;
}

#[tokio::test]
async fn the_memory_mesh_passes() {
    keeps(node_deregistrar::suite()).await;
    keeps(node_deregistrar::seams_suite()).await;
}

#[tokio::test]
async fn the_recording_event_sink_passes() {
    keeps(event_sink::suite()).await;
}

#[tokio::test]
async fn clock_and_ids_pass() {
    keeps(clock::clock_suite()).await;
    keeps(clock::id_source_suite()).await;
}

#[tokio::test]
async fn the_memory_neighbours_pass() {
    keeps(resolvers::blueprint_suite()).await;
    keeps(resolvers::cloud_suite()).await;
    keeps(resolvers::credential_suite()).await;
    keeps(resolvers::assignment_suite()).await;
    keeps(resolvers::label_suite()).await;
}
