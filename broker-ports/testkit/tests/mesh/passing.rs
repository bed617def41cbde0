//! Every in-memory adapter keeps every promise.

use broker_memory::RecordingEventSink;
use broker_testkit::{clock, event_sink, node_deregistrar, resolvers, token_issuer};

use super::worlds::{MeshWorld, Neighbourhood, ReplicaWorld, SinkWorld};

#[tokio::test]
async fn memory_tokens_pass() {
    token_issuer::suite().run(async || MeshWorld::fresh()).await.assert_passed();
}

#[tokio::test]
async fn the_chained_deregistrar_passes_on_the_memory_mesh() {
    node_deregistrar::suite().run(async || MeshWorld::fresh()).await.assert_passed();
}

#[tokio::test]
async fn the_seams_of_the_memory_mesh_pass() {
    node_deregistrar::seams_suite().run(async || MeshWorld::fresh()).await.assert_passed();
}

#[tokio::test]
async fn the_recording_event_sink_passes() {
    let fresh = async || SinkWorld(RecordingEventSink::default());
    event_sink::suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn the_manual_clock_passes() {
    clock::clock_suite().run(async || MeshWorld::fresh()).await.assert_passed();
}

#[tokio::test]
async fn sequential_ids_pass() {
    clock::id_source_suite().run(async || ReplicaWorld::default()).await.assert_passed();
}

#[tokio::test]
async fn the_memory_neighbours_pass() {
    let fresh = async || Neighbourhood::fresh();
    resolvers::blueprint_suite().run(fresh).await.assert_passed();
    resolvers::cloud_suite().run(fresh).await.assert_passed();
    resolvers::credential_suite().run(fresh).await.assert_passed();
    resolvers::assignment_suite().run(fresh).await.assert_passed();
    resolvers::label_suite().run(fresh).await.assert_passed();
}
