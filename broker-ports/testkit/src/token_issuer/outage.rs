//! Cases for outages: an unreachable issuer is an error. A close that wrongly succeeds would leave a usable
//! token.

use super::{IssuerFixture, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(IssuerFixture { an_unreachable_issuer_never_reports_absence })
}

async fn an_unreachable_issuer_never_reports_absence(fixture: &IssuerFixture<'_>) -> Outcome {
    let (replaced, live) = (fixture.issue(1, 1).await?, fixture.issue(2, 1).await?);
    fixture.world.cut_off().await?;
    require_outage(fixture.issuer().state(live.id).await, "state of a live token")?;
    require_outage(fixture.issuer().state(replaced.id).await, "state of a replaced token")?;
    // A repeated, a new and a stale request: without its data the issuer cannot distinguish them.
    for (ordinal, epoch) in [(2, 1), (3, 2), (1, 0)] {
        require_outage(fixture.request_token(ordinal, epoch).await?, "issue")?;
    }
    require_outage(fixture.issuer().close(fixture.resource).await, "close")
}
