//! The simulated cluster passes the contract suite of its port.

#![expect(clippy::unwrap_used, reason = "a failed test helper fails the test")]
mod world;

use broker_testkit::cluster::suite;
use world::World;

#[tokio::test(start_paused = true)]
async fn simulated_cluster_passes_the_contract_suite() {
    suite().run(async || World::fresh()).await.assert_passed();
}
