//! Promises about failure: an issuer that cannot be reached says so. A close that was only believed leaves a
//! token that somebody may enrol with.

use super::{Bench, TokenIssuerUnderTest};
use crate::Violation;
use crate::cases::require_outage;

type Outcome = Result<(), Violation>;

pub(super) async fn an_issuer_that_is_cut_off_never_answers_with_absence(
    world: &dyn TokenIssuerUnderTest,
) -> Outcome {
    let bench = Bench::new(world).await?;
    let (replaced, live) = (bench.issued(1, 1).await?, bench.issued(2, 1).await?);
    world.cut_off().await?;
    require_outage(bench.issuer().state(live.id).await, "state of a live token")?;
    require_outage(bench.issuer().state(replaced.id).await, "state of a replaced token")
}

pub(super) async fn an_issuer_that_is_cut_off_issues_and_closes_nothing(
    world: &dyn TokenIssuerUnderTest,
) -> Outcome {
    let bench = Bench::new(world).await?;
    bench.issued(1, 1).await?;
    world.cut_off().await?;
    // The same request, the next one, and one that is too late: without the books nobody can tell them apart.
    for (ordinal, epoch) in [(1, 1), (2, 2), (1, 0)] {
        require_outage(bench.ask(ordinal, epoch).await?, "issue")?;
    }
    require_outage(bench.issuer().close(bench.resource).await, "close")
}
