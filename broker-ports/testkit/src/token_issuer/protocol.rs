//! The interleavings: what a worker, its successor and an agent can do to each other.

use broker_ports::Issue;
use futures_util::future::join;

use super::{Bench, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of!(Bench {
        issue_by_a_worker_that_lost_its_lease_is_rejected,
        issue_whose_answer_was_lost_is_replaced_by_the_next,
        close_before_issue_rejects_it,
        close_against_issue_leaves_nothing_live,
        close_against_consumption_has_one_winner,
    });
    cases.extend(dropping_suite_of!(Bench {
        issue_that_was_dropped_half_way_leaves_one_token_at_most,
        close_that_was_dropped_is_finished_by_the_next
    }));
    cases
}

async fn issue_by_a_worker_that_lost_its_lease_is_rejected(bench: &Bench<'_>) -> Outcome {
    let token = bench.issued(1, 2).await?;
    bench.rejected(1, 1).await?;
    bench.rejected(2, 1).await?;
    bench.is_live(&token).await?;
    bench.enrol(&token).await
}

async fn issue_whose_answer_was_lost_is_replaced_by_the_next(bench: &Bench<'_>) -> Outcome {
    let lost = bench.issued(1, 1).await?;
    let token = bench.issued(1, 1).await?;
    require(lost.id != token.id, "a token was handed out twice")?;
    bench.is_invalidated(&lost).await?;
    bench.enrol(&token).await?;
    // And if the answer was lost of one that was consumed, it is named.
    let told = bench.told_consumed(1, 1).await?;
    require(told == token.id, "the consumed token that was named is another one")
}

async fn issue_that_was_dropped_half_way_leaves_one_token_at_most(
    bench: &Bench<'_>,
    polls: u32,
) -> Dropped {
    let standing = bench.issued(1, 1).await?;
    let request = bench.request(1, 1)?;
    // As at a deadline: it may have happened, or may still happen.
    let early = dropped_after(polls, bench.issuer().issue(&request)).await;
    let token = bench.issued(1, 2).await?;
    bench.is_invalidated(&standing).await?;
    bench.is_live(&token).await?;
    // What was under way belongs to an older epoch, so it is dead whenever it lands.
    let Some(Ok(Issue::Issued(early))) = early else { return Ok(false) };
    bench.is_invalidated(&early).await?;
    Ok(true)
}

async fn close_that_was_dropped_is_finished_by_the_next(bench: &Bench<'_>, polls: u32) -> Dropped {
    let token = bench.issued(1, 1).await?;
    let answer = dropped_after(polls, bench.issuer().close(bench.resource)).await;
    bench.issuer().close(bench.resource).await?;
    bench.is_invalidated(&token).await?;
    bench.rejected(1, 1).await?;
    Ok(answer.is_some())
}

async fn close_before_issue_rejects_it(bench: &Bench<'_>) -> Outcome {
    let token = bench.issued(1, 1).await?;
    bench.enrol(&token).await?;
    // Nobody recorded this one: the worker died right after it was issued.
    let unrecorded = bench.issued(2, 1).await?;
    bench.issuer().close(bench.resource).await?;
    bench.is_consumed(token.id).await?;
    bench.is_invalidated(&unrecorded).await?;
    // Closed comes before consumed: a worker that tears down must learn nothing that invites a new token.
    bench.rejected(1, 1).await?;
    bench.rejected(2, 2).await
}

async fn close_against_issue_leaves_nothing_live(bench: &Bench<'_>) -> Outcome {
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
            refused => require_rejected(refused, "an issue that came after the close")?,
        }
        bench.rejected(1, 3).await?;
    }
    Ok(())
}

async fn close_against_consumption_has_one_winner(bench: &Bench<'_>) -> Outcome {
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
        // Whoever closed looks for a Node next, so the state must tell the truth about the agent.
        if let_in? {
            bench.is_consumed(token.id).await?;
        } else {
            bench.is_invalidated(&token).await?;
        }
    }
    Ok(())
}
