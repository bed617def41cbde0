//! Cases for concurrent issues, consumptions and closes.

use broker_ports::{Issue, IssuedToken, TokenState};
use futures_util::future::{BoxFuture, FutureExt, join, try_join_all};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{IssuerFixture, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(IssuerFixture {
        concurrent_issues_leave_at_most_one_live_token,
        a_concurrent_close_leaves_no_live_token,
    })
}

/// The number of concurrent calls per round.
const CONCURRENT_CALLS: usize = 32;
const ROUNDS: u64 = 8;

/// The result of one call: an issued token, and whether an agent was admitted.
type Attempt = (Option<IssuedToken>, bool);

async fn concurrent_issues_leave_at_most_one_live_token(fixture: &IssuerFixture<'_>) -> Outcome {
    let mut random = StdRng::seed_from_u64(1);
    let mut tokens = Vec::new();
    for round in 1..=ROUNDS {
        run_round(fixture, &mut tokens, round, &mut random).await?;
        let [live, consumed] = count_states(fixture, &tokens).await?;
        require(live <= 1, &format!("{live} tokens are live at once"))?;
        let ordinals = usize::try_from(round)?;
        require(consumed <= ordinals, &format!("{consumed} of {ordinals} ordinals consumed"))?;
    }
    Ok(())
}

async fn a_concurrent_close_leaves_no_live_token(fixture: &IssuerFixture<'_>) -> Outcome {
    let mut random = StdRng::seed_from_u64(2);
    let mut tokens = Vec::new();
    run_round(fixture, &mut tokens, 1, &mut random).await?;
    let round = run_round(fixture, &mut tokens, 2, &mut random);
    let (round_result, close_result) = join(round, fixture.issuer().close(fixture.resource)).await;
    round_result?;
    close_result?;
    let [live, consumed] = count_states(fixture, &tokens).await?;
    require(live == 0, &format!("{live} tokens are live after a confirmed close"))?;
    // No agent is admitted with an earlier token.
    for token in &tokens {
        fixture.consume(token).await?;
    }
    let [_, consumed_later] = count_states(fixture, &tokens).await?;
    require(consumed_later == consumed, "a token was consumed after a confirmed close")
}

/// Workers request tokens of one ordinal under several epochs while agents enrol with earlier tokens, in random order.
async fn run_round(
    fixture: &IssuerFixture<'_>,
    tokens: &mut Vec<IssuedToken>,
    round: u64,
    random: &mut StdRng,
) -> Outcome {
    let ordinal = u32::try_from(round)?;
    let mut calls: Vec<BoxFuture<'_, Checked<Attempt>>> = Vec::new();
    for token in tokens.iter().rev().take(CONCURRENT_CALLS / 2) {
        calls.push(async move { Ok((None, fixture.consume(token).await?)) }.boxed());
    }
    while calls.len() < CONCURRENT_CALLS {
        let epoch = 2 * round + random.random_range(0..3);
        let issue = async move {
            match fixture.request_token(ordinal, epoch).await? {
                Ok(Issue::Issued(token)) => Ok((Some(token), false)),
                Ok(Issue::Consumed { .. }) => Ok((None, false)),
                // Under contention an issuer may request a retry.
                Err(error) if error.class() == FailureClass::Transient => Ok((None, false)),
                rejected => require_rejected(rejected, "an issue").map(|()| (None, false)),
            }
        };
        calls.push(issue.boxed());
    }
    calls.shuffle(random);
    let attempts = try_join_all(calls).await?;
    let admitted = attempts.iter().filter(|(_, admitted)| *admitted).count();
    // Only one earlier token is still live, so at most one agent is admitted.
    require(admitted <= 1, &format!("{admitted} agents of one resource were admitted"))?;
    tokens.extend(attempts.into_iter().filter_map(|(token, _)| token));
    Ok(())
}

/// The numbers of live and consumed tokens.
async fn count_states(fixture: &IssuerFixture<'_>, tokens: &[IssuedToken]) -> Checked<[usize; 2]> {
    let [mut live, mut consumed] = [0, 0];
    for token in tokens {
        let state = fixture.state(token.id).await?;
        live += usize::from(matches!(state, TokenState::Live { .. }));
        consumed += usize::from(matches!(state, TokenState::Consumed { .. }));
    }
    Ok([live, consumed])
}
