//! The contract of the cluster port, on a real API server with a garbage collector.

use broker_ports::testing::cluster::suite;
use broker_tests::TestCluster;

use super::world::World;

#[tokio::test]
async fn the_kubernetes_adapter_keeps_the_contract_of_its_port() {
    let cluster = TestCluster::shared().await;
    let report = suite().run(|| World::new(&cluster)).await;
    assert!(report.ran() >= 89, "only {} cases", report.ran());
    report.assert_passed();
}
