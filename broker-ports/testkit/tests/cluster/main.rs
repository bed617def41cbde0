//! The simulated cluster: it keeps the contract of its port.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on ends the test")]
mod world;

use broker_testkit::cluster::suite;
use world::World;

#[tokio::test(start_paused = true)]
async fn the_simulated_cluster_keeps_the_contract() {
    suite().run(async || World::sound()).await.assert_passed();
}
