//! The health server over a real socket.

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;
use crate::testing::http_get;

const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nhost: broker\r\n\r\n";

async fn start_server() -> (JoinSet<std::io::Result<()>>, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    let mut server = JoinSet::new();
    server.spawn(serve(listener, Health::starting(), metrics, std::future::pending()));
    (server, address)
}

/// The paused clock advances while every task waits: without a timeout the client would hang.
#[tokio::test(start_paused = true)]
async fn client_with_an_incomplete_request_is_disconnected() {
    let (_server, address) = start_server().await;
    for sent in [&b""[..], b"GET /livez HTTP/1.1\r\nhost: ", REQUEST] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(sent).await.unwrap();
        let mut response = Vec::new();
        client.read_to_end(&mut response).await.unwrap();
        assert_eq!(response.starts_with(b"HTTP/1.1 200"), sent == REQUEST);
    }
}

#[tokio::test]
async fn connection_beyond_the_limit_waits_for_a_slot() {
    let (_server, address) = start_server().await;
    let mut idle = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST).await.unwrap();
    let mut status_line = [0; 12];
    // Shorter than the idle timeout.
    timeout(Duration::from_secs(2), client.read_exact(&mut status_line)).await.unwrap_err();
    idle.pop();
    client.read_exact(&mut status_line).await.unwrap();
    assert_eq!(&status_line, b"HTTP/1.1 200");
}

#[tokio::test]
async fn replica_state_decides_readiness_but_not_liveness() {
    let health = Health::starting();
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || metrics::counter!("example_total").increment(3));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap_or_default() };
    let server = serve(listener, health.clone(), recorder.handle(), stopped);
    let client = async {
        let rows = [
            (
                ReplicaState::Starting,
                503,
                "provisioning-broker-reconcile: the replica is starting\n",
            ),
            (ReplicaState::Inert, 200, "ok: inert, PLEXSPHERE_DSN is empty\n"),
            (
                ReplicaState::Stopping,
                503,
                "provisioning-broker-reconcile: the replica is stopping\n",
            ),
        ];
        for (state, status, body) in rows {
            health.set(state);
            assert_eq!(http_get(address, "/readyz").await, (status, body.to_owned()));
            assert_eq!(http_get(address, "/livez").await, (200, "ok\n".to_owned()));
        }
        let (status, body) = http_get(address, "/metrics").await;
        assert_eq!(status, 200);
        assert!(body.contains("example_total 3"), "{body}");
        assert_eq!(http_get(address, "/").await.0, 404);
        drop(stop);
    };
    let (result, ()) = tokio::join!(server, client);
    result.unwrap();
}
