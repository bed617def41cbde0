//! Cases for a single worker: ordinals, times to live, closing, states.

use std::collections::BTreeSet;
use std::time::Duration;

use broker_domain::BootstrapTokenId;
use broker_ports::{IssuedToken, TokenState};
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Bench, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Bench {
        an_epoch_of_a_consumed_answer_is_seen,
        a_consumed_ordinal_stays_consumed,
        another_ordinal_invalidates_unconsumed_tokens,
        tokens_of_other_resources_are_unaffected,
        ttl_outside_of_the_window_is_rejected,
        a_token_lives_for_its_ttl,
        a_token_is_consumed_once,
        a_close_is_idempotent,
        plaintexts_are_printable_and_unique,
    })
}

/// More than any agent's image accepts.
const MAX_PLAINTEXT_BYTES: usize = 512;

async fn an_epoch_of_a_consumed_answer_is_seen(bench: &Bench<'_>) -> Outcome {
    let token = bench.issued(1, 1).await?;
    bench.enrol(&token).await?;
    bench.answered_consumed(1, 5).await?;
    bench.rejected(1, 4).await?;
    bench.rejected(2, 4).await
}

async fn a_consumed_ordinal_stays_consumed(bench: &Bench<'_>) -> Outcome {
    let first = bench.issued(1, 1).await?;
    bench.enrol(&first).await?;
    let second = bench.issued(2, 1).await?;
    require(
        bench.answered_consumed(1, 1).await? == first.id,
        "another token is reported as consumed",
    )?;
    bench.is_live(&second).await?;
    bench.enrol(&second).await?;
    for epoch in 1..=2 {
        require(
            bench.answered_consumed(1, epoch).await? == first.id,
            "ordinal 1 names another token",
        )?;
        require(
            bench.answered_consumed(2, epoch).await? == second.id,
            "ordinal 2 names another token",
        )?;
    }
    bench.is_consumed(first.id).await
}

async fn another_ordinal_invalidates_unconsumed_tokens(bench: &Bench<'_>) -> Outcome {
    let first = bench.issued(1, 1).await?;
    let second = bench.issued(2, 1).await?;
    bench.is_invalidated(&first).await?;
    // Also downwards: a worker whose row lost the record restarts at the lower ordinal.
    let first_again = bench.issued(1, 2).await?;
    bench.is_invalidated(&second).await?;
    bench.is_live(&first_again).await
}

async fn tokens_of_other_resources_are_unaffected(bench: &Bench<'_>) -> Outcome {
    let (one, other) = (Bench::new(bench.world).await?, Bench::new(bench.world).await?);
    let token = one.issued(1, 1).await?;
    other.issued(1, 9).await?;
    one.is_live(&token).await?;
    other.issuer().close(other.resource).await?;
    one.is_live(&token).await?;
    // The other resource's epoch and close do not count here.
    let next = one.issued(1, 2).await?;
    one.enrol(&next).await
}

async fn ttl_outside_of_the_window_is_rejected(bench: &Bench<'_>) -> Outcome {
    let window = bench.issuer().ttl_window().await?;
    require(window.min <= window.max, "the window is empty")?;
    let token = bench.issued(1, 1).await?;
    let beyond = [
        window.min.checked_sub(Duration::from_secs(1)),
        window.max.checked_add(Duration::from_secs(1)),
    ];
    for ttl in beyond.into_iter().flatten() {
        let mut request = bench.request(1, 1)?;
        request.ttl = ttl;
        let what = format!("a time to live of {ttl:?}");
        require_rejected(bench.issuer().issue(&request).await, &what)?;
    }
    bench.is_live(&token).await
}

async fn a_token_lives_for_its_ttl(bench: &Bench<'_>) -> Outcome {
    let window = bench.world.issuer().ttl_window().await?;
    let brief = Bench { ttl: window.min, ..Bench::new(bench.world).await? };
    let lasting = Bench { ttl: window.max, ..Bench::new(bench.world).await? };
    let (first, second) = (brief.issued(1, 1).await?, lasting.issued(1, 1).await?);
    let apart = ends_at(&lasting, &second).await? - ends_at(&brief, &first).await?;
    let asked = window.max.saturating_sub(window.min);
    // The second was issued slightly later than the first.
    require(
        apart >= asked && apart <= asked + window.min / 2,
        &format!("tokens of {:?} and {:?} end {apart} apart", window.min, window.max),
    )?;
    bench.world.advance(window.min).await?;
    let state = brief.state(first.id).await?;
    require(
        matches!(state, TokenState::Expired { .. }),
        &format!("a token whose time is over is {state:?}"),
    )?;
    require(!brief.consume(&first).await?, "an expired token was consumed")?;
    let replacement = brief.issued(1, 1).await?;
    require(!brief.consume(&first).await?, "an expired token was consumed")?;
    brief.enrol(&replacement).await?;
    if window.min < window.max {
        lasting.is_live(&second).await?;
        lasting.enrol(&second).await?;
    }
    Ok(())
}

async fn ends_at(bench: &Bench<'_>, token: &IssuedToken) -> Checked<OffsetDateTime> {
    let state = bench.state(token.id).await?;
    let TokenState::Live { expires_at } = state else {
        return Err(Violation::new(format!("a new token is {state:?}")));
    };
    Ok(expires_at)
}

async fn a_token_is_consumed_once(bench: &Bench<'_>) -> Outcome {
    let token = bench.issued(1, 1).await?;
    bench.enrol(&token).await?;
    require(!bench.consume(&token).await?, "a token was consumed twice")?;
    // Neither expiry nor a close changes a consumed token.
    bench.world.advance(bench.ttl).await?;
    bench.is_consumed(token.id).await?;
    bench.issuer().close(bench.resource).await?;
    bench.is_consumed(token.id).await
}

async fn a_close_is_idempotent(bench: &Bench<'_>) -> Outcome {
    let unused_id = BootstrapTokenId::new(Uuid::from_u128(0x00dd))?;
    require(bench.issuer().state(unused_id).await?.is_none(), "an unknown token has a state")?;
    let token = bench.issued(1, 1).await?;
    let without = Bench::new(bench.world).await?;
    for _ in 0..2 {
        bench.issuer().close(bench.resource).await?;
        bench.is_invalidated(&token).await?;
        bench.rejected(1, 1).await?;
        // Also without any token.
        without.issuer().close(without.resource).await?;
        without.rejected(1, 1).await?;
    }
    Ok(())
}

async fn plaintexts_are_printable_and_unique(bench: &Bench<'_>) -> Outcome {
    let (mut ids, mut plaintexts) = (BTreeSet::new(), BTreeSet::new());
    for epoch in 1..=16 {
        let token = bench.issued(1, epoch).await?;
        let plaintext = token.plaintext.secret().expose_secret().to_owned();
        // The violation omits the plaintext, because it may be logged.
        require(
            !plaintext.is_empty()
                && plaintext.len() <= MAX_PLAINTEXT_BYTES
                && plaintext.bytes().all(|byte| byte.is_ascii_graphic()),
            "a plaintext is not 1 to 512 bytes of printable ASCII",
        )?;
        require(ids.insert(token.id), "an id was used twice")?;
        require(plaintexts.insert(plaintext), "a plaintext was used twice")?;
    }
    Ok(())
}
