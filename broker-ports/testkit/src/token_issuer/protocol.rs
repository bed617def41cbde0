//! Cases for interleavings of a worker, its successor and an agent.

use broker_ports::Issue;
use futures_util::future::join;

use super::{Bench, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of!(Bench {
        an_issue_after_a_lost_lease_is_rejected,
        an_issue_with_a_lost_response_is_replaced_by_the_next,
        an_issue_after_close_is_rejected,
        a_close_during_an_issue_leaves_no_live_token,
        a_close_during_consumption_has_one_winner,
    });
    cases.extend(dropping_suite_of!(Bench {
        a_dropped_issue_leaves_at_most_one_token,
        a_dropped_close_is_finished_by_the_next
    }));
    cases
}

async fn an_issue_after_a_lost_lease_is_rejected(bench: &Bench<'_>) -> Outcome {
    let token = bench.issued(1, 2).await?;
    bench.rejected(1, 1).await?;
    bench.rejected(2, 1).await?;
    bench.is_live(&token).await?;
    bench.enrol(&token).await
}

async fn an_issue_with_a_lost_response_is_replaced_by_the_next(bench: &Bench<'_>) -> Outcome {
    let lost = bench.issued(1, 1).await?;
    let token = bench.issued(1, 1).await?;
    require(lost.id != token.id, "a token was handed out twice")?;
    bench.is_invalidated(&lost).await?;
    bench.enrol(&token).await?;
    // If the response about a consumed token was lost, the retry names that token.
    let consumed = bench.answered_consumed(1, 1).await?;
    require(consumed == token.id, "another token is reported as consumed")
}

async fn a_dropped_issue_leaves_at_most_one_token(bench: &Bench<'_>, polls: u32) -> Dropped {
    let standing = bench.issued(1, 1).await?;
    let request = bench.request(1, 1)?;
    // As at a deadline: it may have happened, or may still happen.
    let early = dropped_after(polls, bench.issuer().issue(&request)).await;
    let token = bench.issued(1, 2).await?;
    bench.is_invalidated(&standing).await?;
    bench.is_live(&token).await?;
    // The dropped request has an older epoch, so its token is invalid whenever it arrives.
    let Some(Ok(Issue::Issued(early))) = early else { return Ok(false) };
    bench.is_invalidated(&early).await?;
    Ok(true)
}

async fn a_dropped_close_is_finished_by_the_next(bench: &Bench<'_>, polls: u32) -> Dropped {
    let token = bench.issued(1, 1).await?;
    let answer = dropped_after(polls, bench.issuer().close(bench.resource)).await;
    bench.issuer().close(bench.resource).await?;
    bench.is_invalidated(&token).await?;
    bench.rejected(1, 1).await?;
    Ok(answer.is_some())
}

async fn an_issue_after_close_is_rejected(bench: &Bench<'_>) -> Outcome {
    let token = bench.issued(1, 1).await?;
    bench.enrol(&token).await?;
    // Not recorded: the worker died right after the issue.
    let unrecorded = bench.issued(2, 1).await?;
    bench.issuer().close(bench.resource).await?;
    bench.is_consumed(token.id).await?;
    bench.is_invalidated(&unrecorded).await?;
    // The closed check precedes the consumed check: a late worker must get no reason to issue again.
    bench.rejected(1, 1).await?;
    bench.rejected(2, 2).await
}

async fn a_close_during_an_issue_leaves_no_live_token(bench: &Bench<'_>) -> Outcome {
    for round in 0..8 {
        let bench = Bench::new(bench.world).await?;
        let standing = bench.issued(1, 1).await?;
        let request = bench.request(1, 2)?;
        let issue = bench.issuer().issue(&request);
        let close = bench.issuer().close(bench.resource);
        let (answer, closed) = if round % 2 == 0 {
            join(issue, close).await
        } else {
            let (closed, answer) = join(close, issue).await;
            (answer, closed)
        };
        closed?;
        bench.is_invalidated(&standing).await?;
        match answer {
            Ok(Issue::Issued(token)) => bench.is_invalidated(&token).await?,
            refused => require_rejected(refused, "an issue after the close")?,
        }
        bench.rejected(1, 3).await?;
    }
    Ok(())
}

async fn a_close_during_consumption_has_one_winner(bench: &Bench<'_>) -> Outcome {
    for round in 0..8 {
        let bench = Bench::new(bench.world).await?;
        let token = bench.issued(1, 1).await?;
        let agent = bench.world.consume(&token.plaintext);
        let close = bench.issuer().close(bench.resource);
        let (let_in, closed) = if round % 2 == 0 {
            join(agent, close).await
        } else {
            let (closed, let_in) = join(close, agent).await;
            (let_in, closed)
        };
        closed?;
        // After the close the caller looks for a Node, so the state must be correct about the agent.
        if let_in? {
            bench.is_consumed(token.id).await?;
        } else {
            bench.is_invalidated(&token).await?;
        }
    }
    Ok(())
}
