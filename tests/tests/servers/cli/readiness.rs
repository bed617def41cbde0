//! A running replica survives the loss of a server: it reports not ready, and recovers without a
//! restart.

use broker_tests::real::RealWorld;
use broker_tests::{HttpProxy, PgProxy};

use super::process::Environment;

#[tokio::test]
async fn readiness_follows_loss_and_return_of_each_server() {
    let world = RealWorld::new().await;
    let store = PgProxy::start(world.database()).await;
    let cluster = HttpProxy::start(world.broker.client.clone()).await;
    let replica = Environment::new(store.url(), &cluster.kubeconfig()).start();
    replica.ready().await;

    for _ in 0..2 {
        store.script().each(|_| true).before_forward().cut();
        // Sweeps, claims and the relay use the store, and any of them may be the first to fail.
        let reasons = ["repository_transient", "schedule_transient", "outbox_transient"];
        let lines = reasons.map(|reason| format!("provisioning-broker-reconcile: {reason}\n"));
        let why = replica.unready_because_of("_transient").await;
        assert!(lines.contains(&why), "{why}");
        store.script().clear();
        replica.ready().await;

        // A sweep sends no request while its watches work, so the proxy has to cut the connections.
        cluster.script().each(|_| true).before_forward().cut();
        cluster.hang_up();
        let why = replica.unready_because_of("cluster").await;
        assert_eq!(why, "provisioning-broker-reconcile: cluster_transient\n");
        cluster.script().clear();
        replica.ready().await;
    }

    let failed = replica.logged("provisioning broker reconcile tick failed").await;
    assert_eq!(failed["level"], "ERROR", "{failed}");
    assert_eq!(replica.get("/livez").await, (200, "ok\n".to_owned()));
    replica.stop().await;
}
