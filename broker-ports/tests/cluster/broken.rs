//! The suite finds what is wrong: each broken way to the cluster fails at least the case that names it, and
//! each case is failed by a broken way.

use broker_ports::testing::cluster::suite;

use crate::coverage::Coverage;
use crate::flaws::FLAWS;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn every_flaw_is_caught_by_the_case_that_names_it_and_every_case_can_fail() {
    let suite = suite();
    let cases: Vec<_> = suite.names().collect();
    let half = cases.len() / 2;
    let mut coverage = Coverage::of(cases, half);
    for (flaw, named) in FLAWS {
        let report = suite.run(|| async { World::with(*flaw) }).await;
        coverage.note(flaw, named, report.failures().map(|(name, _)| name).collect());
    }
    coverage.assert_complete();
}
