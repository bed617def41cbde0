//! Cases for concurrency: workers of all epochs, agents with every plaintext, and a concurrent close.

use broker_ports::{Issue, IssuedToken, TokenState};
use futures_util::future::{BoxFuture, FutureExt, join, try_join_all};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{Bench, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Bench {
        concurrent_issues_leave_at_most_one_live_token,
        a_concurrent_close_leaves_no_live_token,
    })
}

const AT_ONCE: usize = 32;
const ROUNDS: u64 = 8;

/// The result of one participant: a token, and whether an agent was admitted.
type Attempt = (Option<IssuedToken>, bool);

async fn concurrent_issues_leave_at_most_one_live_token(bench: &Bench<'_>) -> Outcome {
    let mut random = StdRng::seed_from_u64(1);
    let mut tokens = Vec::new();
    for round in 1..=ROUNDS {
        race(bench, &mut tokens, round, &mut random).await?;
        let [live, consumed] = count(bench, &tokens).await?;
        require(live <= 1, &format!("{live} tokens are live at once"))?;
        let ordinals = usize::try_from(round)?;
        require(
            consumed <= ordinals,
            &format!("{consumed} tokens of {ordinals} ordinals were consumed"),
        )?;
    }
    Ok(())
}

async fn a_concurrent_close_leaves_no_live_token(bench: &Bench<'_>) -> Outcome {
    let mut random = StdRng::seed_from_u64(2);
    let mut tokens = Vec::new();
    race(bench, &mut tokens, 1, &mut random).await?;
    let racing = race(bench, &mut tokens, 2, &mut random);
    let (crowded, closed) = join(racing, bench.issuer().close(bench.resource)).await;
    crowded?;
    closed?;
    let [live, consumed] = count(bench, &tokens).await?;
    require(live == 0, &format!("{live} tokens are live after a confirmed close"))?;
    // No agent is admitted with an earlier token.
    for token in &tokens {
        bench.consume(token).await?;
    }
    let [_, afterwards] = count(bench, &tokens).await?;
    require(afterwards == consumed, "a token was consumed after a confirmed close")
}

/// Workers request tokens under the round's ordinal and mixed epochs, while agents enrol with the latest ones, in any
/// order.
async fn race(
    bench: &Bench<'_>,
    tokens: &mut Vec<IssuedToken>,
    round: u64,
    random: &mut StdRng,
) -> Outcome {
    let ordinal = u32::try_from(round)?;
    let mut met: Vec<BoxFuture<'_, Checked<Attempt>>> = Vec::new();
    for token in tokens.iter().rev().take(AT_ONCE / 2) {
        met.push(async move { Ok((None, bench.consume(token).await?)) }.boxed());
    }
    while met.len() < AT_ONCE {
        let epoch = 2 * round + random.random_range(0..3);
        let issue = async move {
            match bench.ask(ordinal, epoch).await? {
                Ok(Issue::Issued(token)) => Ok((Some(token), false)),
                Ok(Issue::Consumed { .. }) => Ok((None, false)),
                // Under contention an issuer may request a retry.
                Err(busy) if busy.class() == FailureClass::Transient => Ok((None, false)),
                refused => require_rejected(refused, "an issue").map(|()| (None, false)),
            }
        };
        met.push(issue.boxed());
    }
    met.shuffle(random);
    let met = try_join_all(met).await?;
    let let_in = met.iter().filter(|(_, let_in)| *let_in).count();
    // Only one earlier token is still live, so at most one agent is admitted.
    require(let_in <= 1, &format!("{let_in} agents were let in by tokens of one resource"))?;
    tokens.extend(met.into_iter().filter_map(|(token, _)| token));
    Ok(())
}

/// The numbers of live and consumed tokens.
async fn count(bench: &Bench<'_>, tokens: &[IssuedToken]) -> Checked<[usize; 2]> {
    let [mut live, mut consumed] = [0, 0];
    for token in tokens {
        let state = bench.state(token.id).await?;
        live += usize::from(matches!(state, TokenState::Live { .. }));
        consumed += usize::from(matches!(state, TokenState::Consumed { .. }));
    }
    Ok([live, consumed])
}
