//! The simulated cluster: it keeps the contract of its port, and behaves like Crossplane.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on ends the test")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a flaw changes one thing, and all others leave that as it should be"
)]

mod broken;
#[path = "../common/coverage.rs"]
mod coverage;
mod crossplane;
mod flawed;
mod flaws;
#[path = "../common/half_way.rs"]
mod half_way;
mod resource;
mod watching;
mod world;

use broker_ports::testing::cluster::suite;
use world::World;

#[tokio::test(start_paused = true)]
async fn the_simulated_cluster_keeps_the_contract() {
    let report = suite().run(|| async { World::sound() }).await;
    assert!(report.ran() >= 100, "only {} cases", report.ran());
    report.assert_passed();
}
