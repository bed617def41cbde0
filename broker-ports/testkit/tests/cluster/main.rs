//! The simulated cluster keeps the contract of its port.

#![expect(clippy::unwrap_used, reason = "a failed test helper fails the test")]
mod world;

use broker_testkit::cluster::suite;
use world::World;

#[tokio::test(start_paused = true)]
async fn the_simulated_cluster_keeps_the_contract() {
    suite().run(async || World::sound()).await.assert_passed();
}
