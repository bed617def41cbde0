//! Cases for outages: an unreachable issuer is an error. A close that wrongly counts as done would leave a usable
//! token.

use super::{Bench, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Bench { an_unreachable_issuer_never_reports_absence })
}

async fn an_unreachable_issuer_never_reports_absence(bench: &Bench<'_>) -> Outcome {
    let (replaced, live) = (bench.issued(1, 1).await?, bench.issued(2, 1).await?);
    bench.world.cut_off().await?;
    require_outage(bench.issuer().state(live.id).await, "state of a live token")?;
    require_outage(bench.issuer().state(replaced.id).await, "state of a replaced token")?;
    // The same request, the next one, and a late one: without its data the issuer cannot distinguish them.
    for (ordinal, epoch) in [(2, 1), (3, 2), (1, 0)] {
        require_outage(bench.ask(ordinal, epoch).await?, "issue")?;
    }
    require_outage(bench.issuer().close(bench.resource).await, "close")
}
