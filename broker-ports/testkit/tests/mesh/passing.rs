//! Every in-memory adapter keeps every promise, and an outage leaves it as it was.

use broker_domain::{EventId, EventType, ProvisionedResourceId};
use broker_memory::RecordingEventSink;
use broker_ports::{Consumer, Envelope, EventSink, Issue, PeerCommander, TokenIssuer};
use broker_testkit::{clock, event_sink, node_deregistrar, resolvers, token_issuer};
use secrecy::ExposeSecret;
use uuid::Uuid;

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

#[tokio::test]
async fn an_outage_of_the_mesh_changes_nothing() {
    let world = MeshWorld::fresh();
    let request = world.request(1);
    let Issue::Issued(token) = world.tokens.issue(&request).await.unwrap() else {
        panic!("nobody consumed it")
    };
    world.tokens.set_reachable(false);
    world.tokens.issue(&request).await.unwrap_err();
    world.tokens.close(request.resource).await.unwrap_err();
    // The outage is the broker's alone: an agent gets through.
    let node = world.mesh.enrol(token.plaintext.secret().expose_secret()).unwrap();
    world.mesh.retire(node, None).await.unwrap_err();
    world.mesh.set_reachable(true);
    let answer = world.tokens.issue(&request).await.unwrap();
    assert!(
        matches!(answer, Issue::Consumed { id } if id == token.id),
        "it was closed or replaced"
    );
    assert_eq!(world.mesh.consumer(token.id), Some(Consumer::registered(node)));
}

#[tokio::test]
async fn an_outage_of_the_sink_keeps_nothing() {
    let sink = RecordingEventSink::default();
    let event_id = EventId::new(Uuid::from_u128(1)).unwrap();
    let resource = ProvisionedResourceId::new(Uuid::from_u128(2)).unwrap();
    let envelope = Envelope::new(event_id, EventType::Ready, resource, 1, b"{}".to_vec());
    sink.set_reachable(false);
    sink.deliver(&envelope).await.unwrap_err();
    assert!(sink.deliveries().is_empty());
    sink.set_reachable(true);
    sink.deliver(&envelope).await.unwrap();
    assert_eq!(sink.deliveries(), [envelope]);
}
