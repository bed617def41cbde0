//! Cases for interleavings of a worker, its successor and an agent.

use broker_ports::Issue;
use futures_util::future::join;

use super::{IssuerFixture, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of!(IssuerFixture {
        an_issue_after_a_lost_lease_is_rejected,
        an_issue_with_a_lost_response_is_replaced_by_the_next,
        an_issue_after_close_is_rejected,
        a_close_during_an_issue_leaves_no_live_token,
        a_close_during_consumption_has_one_winner,
    });
    cases.extend(dropping_suite_of!(IssuerFixture {
        a_dropped_issue_leaves_at_most_one_token,
        a_dropped_close_is_finished_by_the_next
    }));
    cases
}

async fn an_issue_after_a_lost_lease_is_rejected(fixture: &IssuerFixture<'_>) -> Outcome {
    let token = fixture.issue(1, 2).await?;
    fixture.require_rejected_issue(1, 1).await?;
    fixture.require_rejected_issue(2, 1).await?;
    fixture.require_live(&token).await?;
    fixture.enrol(&token).await
}

async fn an_issue_with_a_lost_response_is_replaced_by_the_next(
    fixture: &IssuerFixture<'_>,
) -> Outcome {
    let lost = fixture.issue(1, 1).await?;
    let token = fixture.issue(1, 1).await?;
    require(lost.id != token.id, "two issues returned the same token")?;
    fixture.require_invalidated(&lost).await?;
    fixture.enrol(&token).await?;
    // If the response about a consumed token was lost, the retry names that token.
    let consumed = fixture.require_consumed_response(1, 1).await?;
    require(consumed == token.id, "another token is named")
}

async fn a_dropped_issue_leaves_at_most_one_token(
    fixture: &IssuerFixture<'_>,
    polls: u32,
) -> Dropped {
    let earlier = fixture.issue(1, 1).await?;
    let request = fixture.request(1, 1)?;
    // The dropped request may have taken effect, or may take effect later.
    let dropped = dropped_after(polls, fixture.issuer().issue(&request)).await;
    let token = fixture.issue(1, 2).await?;
    fixture.require_invalidated(&earlier).await?;
    fixture.require_live(&token).await?;
    // The dropped request has an older epoch, so its token is invalid whenever it arrives.
    let Some(Ok(Issue::Issued(dropped))) = dropped else { return Ok(false) };
    fixture.require_invalidated(&dropped).await?;
    Ok(true)
}

async fn a_dropped_close_is_finished_by_the_next(
    fixture: &IssuerFixture<'_>,
    polls: u32,
) -> Dropped {
    let token = fixture.issue(1, 1).await?;
    let result = dropped_after(polls, fixture.issuer().close(fixture.resource)).await;
    fixture.issuer().close(fixture.resource).await?;
    fixture.require_invalidated(&token).await?;
    fixture.require_rejected_issue(1, 1).await?;
    Ok(result.is_some())
}

async fn an_issue_after_close_is_rejected(fixture: &IssuerFixture<'_>) -> Outcome {
    let token = fixture.issue(1, 1).await?;
    fixture.enrol(&token).await?;
    // The worker crashed after the issue, before it recorded the token.
    let unrecorded = fixture.issue(2, 1).await?;
    fixture.issuer().close(fixture.resource).await?;
    fixture.require_consumed(token.id).await?;
    fixture.require_invalidated(&unrecorded).await?;
    // The closed check precedes the consumed check: a late worker must not request the next ordinal.
    fixture.require_rejected_issue(1, 1).await?;
    fixture.require_rejected_issue(2, 2).await
}

async fn a_close_during_an_issue_leaves_no_live_token(fixture: &IssuerFixture<'_>) -> Outcome {
    for round in 0..8 {
        let fixture = IssuerFixture::new(fixture.world).await?;
        let earlier = fixture.issue(1, 1).await?;
        let request = fixture.request(1, 2)?;
        let issue = fixture.issuer().issue(&request);
        let close = fixture.issuer().close(fixture.resource);
        let (result, closed) = if round % 2 == 0 {
            join(issue, close).await
        } else {
            let (closed, result) = join(close, issue).await;
            (result, closed)
        };
        closed?;
        fixture.require_invalidated(&earlier).await?;
        match result {
            Ok(Issue::Issued(token)) => fixture.require_invalidated(&token).await?,
            refused => require_rejected(refused, "an issue after the close")?,
        }
        fixture.require_rejected_issue(1, 3).await?;
    }
    Ok(())
}

async fn a_close_during_consumption_has_one_winner(fixture: &IssuerFixture<'_>) -> Outcome {
    for round in 0..8 {
        let fixture = IssuerFixture::new(fixture.world).await?;
        let token = fixture.issue(1, 1).await?;
        let consumption = fixture.world.consume(&token.plaintext);
        let close = fixture.issuer().close(fixture.resource);
        let (admitted, closed) = if round % 2 == 0 {
            join(consumption, close).await
        } else {
            let (closed, admitted) = join(close, consumption).await;
            (admitted, closed)
        };
        closed?;
        // After the close the caller looks for a Node, so the state must tell whether an agent consumed the token.
        if admitted? {
            fixture.require_consumed(token.id).await?;
        } else {
            fixture.require_invalidated(&token).await?;
        }
    }
    Ok(())
}
