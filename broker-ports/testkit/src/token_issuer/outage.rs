//! Promises about failure: an issuer that cannot be reached says so. A close that was only believed leaves a
//! token that somebody may enrol with.

use super::{Bench, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Bench { an_issuer_that_is_cut_off_never_answers_with_absence })
}

async fn an_issuer_that_is_cut_off_never_answers_with_absence(bench: &Bench<'_>) -> Outcome {
    let (replaced, live) = (bench.issued(1, 1).await?, bench.issued(2, 1).await?);
    bench.world.cut_off().await?;
    require_outage(bench.issuer().state(live.id).await, "state of a live token")?;
    require_outage(bench.issuer().state(replaced.id).await, "state of a replaced token")?;
    // The same request, the next one, and one that is too late: without the books nobody can tell them apart.
    for (ordinal, epoch) in [(2, 1), (3, 2), (1, 0)] {
        require_outage(bench.ask(ordinal, epoch).await?, "issue")?;
    }
    require_outage(bench.issuer().close(bench.resource).await, "close")
}
