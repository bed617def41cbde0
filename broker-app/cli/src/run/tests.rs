//! A replica over in-memory adapters: it starts, works, reports readiness and stops.

use std::collections::BTreeMap;

use broker_domain::Phase;
use broker_memory::Behaviour;

use super::*;
use crate::settings::{API_URL, DSN, RECONCILE_INTERVAL};
use crate::testing::{World, http_get};

const REPLICA: [(&str, &str); 3] = [
    (DSN, "postgres://broker@localhost/broker"),
    (API_URL, "https://mesh.example.org"),
    (RECONCILE_INTERVAL, "100ms"),
];

fn settings(variables: &[(&str, &str)]) -> Settings {
    let environment: BTreeMap<_, _> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::read(&environment).unwrap()
}

fn arguments() -> RunArguments {
    RunArguments { log: "info".to_owned(), strict: false, retention: None }
}

async fn health_server() -> (HealthServer, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    (HealthServer { listener, metrics }, address)
}

/// Polls `/readyz` until it returns this status; the test runner's timeout is the limit.
async fn wait_for_status(address: SocketAddr, expected: u16) -> String {
    loop {
        let (status, body) = http_get(address, "/readyz").await;
        if status == expected {
            return body;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn replica_works_reports_readiness_and_stops() {
    let world = World::new(Behaviour::ready_after(1));
    let (server, address) = health_server().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let (settings, arguments) = (settings(&REPLICA), arguments());
    let replica = serve_and_replicate(&settings, &arguments, &world, server, async {
        stopped.await.unwrap_or_default();
    });
    let client = async {
        assert_eq!(wait_for_status(address, 200).await, "ok\n");

        let declared = world.declare_now().await;
        while world.stored(declared).await.phase() != Phase::Ready {
            world.cluster.tick();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }

        world.store.set_reachable(false);
        let reason = wait_for_status(address, 503).await;
        assert!(reason.starts_with("provisioning-broker-reconcile: "), "{reason}");
        world.store.set_reachable(true);
        assert_eq!(wait_for_status(address, 200).await, "ok\n");
        drop(stop);
    };
    let (result, ()) = tokio::join!(replica, client);
    result.unwrap();
}

#[tokio::test]
async fn address_in_use_is_named_in_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let failure = listen(address).await.unwrap_err();
    let expected = format!("error[listen_failed]: cannot listen on {address}: ");
    assert!(failure.line().starts_with(&expected), "{}", failure.line());
}
