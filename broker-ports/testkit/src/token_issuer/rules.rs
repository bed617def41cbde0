//! Cases for a single worker: ordinals, times to live, closing, states.

use std::collections::BTreeSet;
use std::time::Duration;

use broker_domain::BootstrapTokenId;
use broker_ports::{IssuedToken, TokenState};
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{IssuerFixture, TokenIssuerUnderTest};
use crate::prelude::*;

pub(super) fn cases<W: TokenIssuerUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(IssuerFixture {
        a_consumed_response_records_its_epoch,
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

/// The maximum length that every agent image accepts.
const MAX_PLAINTEXT_BYTES: usize = 512;

async fn a_consumed_response_records_its_epoch(fixture: &IssuerFixture<'_>) -> Outcome {
    let token = fixture.issue(1, 1).await?;
    fixture.enrol(&token).await?;
    fixture.require_consumed_response(1, 5).await?;
    fixture.require_rejected_issue(1, 4).await?;
    fixture.require_rejected_issue(2, 4).await
}

async fn a_consumed_ordinal_stays_consumed(fixture: &IssuerFixture<'_>) -> Outcome {
    let first = fixture.issue(1, 1).await?;
    fixture.enrol(&first).await?;
    let second = fixture.issue(2, 1).await?;
    require(fixture.require_consumed_response(1, 1).await? == first.id, "another token is named")?;
    fixture.require_live(&second).await?;
    fixture.enrol(&second).await?;
    for epoch in 1..=2 {
        require(fixture.require_consumed_response(1, epoch).await? == first.id, "not the first")?;
        require(fixture.require_consumed_response(2, epoch).await? == second.id, "not the second")?;
    }
    fixture.require_consumed(first.id).await
}

async fn another_ordinal_invalidates_unconsumed_tokens(fixture: &IssuerFixture<'_>) -> Outcome {
    let first = fixture.issue(1, 1).await?;
    let second = fixture.issue(2, 1).await?;
    fixture.require_invalidated(&first).await?;
    // Also for a lower ordinal: a worker whose row lost the record restarts at it.
    let first_again = fixture.issue(1, 2).await?;
    fixture.require_invalidated(&second).await?;
    fixture.require_live(&first_again).await
}

async fn tokens_of_other_resources_are_unaffected(fixture: &IssuerFixture<'_>) -> Outcome {
    let (first, second) =
        (IssuerFixture::new(fixture.world).await?, IssuerFixture::new(fixture.world).await?);
    let token = first.issue(1, 1).await?;
    second.issue(1, 9).await?;
    first.require_live(&token).await?;
    second.issuer().close(second.resource).await?;
    first.require_live(&token).await?;
    // Epoch and close of the other resource have no effect on this first.
    let next = first.issue(1, 2).await?;
    first.enrol(&next).await
}

async fn ttl_outside_of_the_window_is_rejected(fixture: &IssuerFixture<'_>) -> Outcome {
    let window = fixture.issuer().ttl_window().await?;
    require(window.min <= window.max, "the window is empty")?;
    let token = fixture.issue(1, 1).await?;
    let outside = [
        window.min.checked_sub(Duration::from_secs(1)),
        window.max.checked_add(Duration::from_secs(1)),
    ];
    for ttl in outside.into_iter().flatten() {
        let mut request = fixture.request(1, 1)?;
        request.ttl = ttl;
        let what = format!("a time to live of {ttl:?}");
        require_rejected(fixture.issuer().issue(&request).await, &what)?;
    }
    fixture.require_live(&token).await
}

async fn a_token_lives_for_its_ttl(fixture: &IssuerFixture<'_>) -> Outcome {
    let window = fixture.world.issuer().ttl_window().await?;
    let short_lived = IssuerFixture { ttl: window.min, ..IssuerFixture::new(fixture.world).await? };
    let long_lived = IssuerFixture { ttl: window.max, ..IssuerFixture::new(fixture.world).await? };
    let (first, second) = (short_lived.issue(1, 1).await?, long_lived.issue(1, 1).await?);
    let difference = expiry(&long_lived, &second).await? - expiry(&short_lived, &first).await?;
    let expected = window.max.saturating_sub(window.min);
    // The second was issued slightly later than the first.
    require(
        difference >= expected && difference <= expected + window.min / 2,
        &format!("tokens of {:?} and {:?} expire {difference} apart", window.min, window.max),
    )?;
    fixture.world.advance(window.min).await?;
    let state = short_lived.state(first.id).await?;
    require(matches!(state, TokenState::Expired { .. }), &format!("{state:?} after its time"))?;
    require(!short_lived.consume(&first).await?, "an expired token was consumed")?;
    let replacement = short_lived.issue(1, 1).await?;
    require(!short_lived.consume(&first).await?, "an expired token was consumed")?;
    short_lived.enrol(&replacement).await?;
    if window.min < window.max {
        long_lived.require_live(&second).await?;
        long_lived.enrol(&second).await?;
    }
    Ok(())
}

async fn expiry(fixture: &IssuerFixture<'_>, token: &IssuedToken) -> Checked<OffsetDateTime> {
    let state = fixture.state(token.id).await?;
    let TokenState::Live { expires_at } = state else {
        return Err(Violation::new(format!("a new token is {state:?}")));
    };
    Ok(expires_at)
}

async fn a_token_is_consumed_once(fixture: &IssuerFixture<'_>) -> Outcome {
    let token = fixture.issue(1, 1).await?;
    fixture.enrol(&token).await?;
    require(!fixture.consume(&token).await?, "a token was consumed twice")?;
    // Neither expiry nor a close changes a consumed token.
    fixture.world.advance(fixture.ttl).await?;
    fixture.require_consumed(token.id).await?;
    fixture.issuer().close(fixture.resource).await?;
    fixture.require_consumed(token.id).await
}

async fn a_close_is_idempotent(fixture: &IssuerFixture<'_>) -> Outcome {
    let unused_id = BootstrapTokenId::new(Uuid::from_u128(0x00dd))?;
    require(fixture.issuer().state(unused_id).await?.is_none(), "an unknown token has a state")?;
    let token = fixture.issue(1, 1).await?;
    let unused = IssuerFixture::new(fixture.world).await?;
    for _ in 0..2 {
        fixture.issuer().close(fixture.resource).await?;
        fixture.require_invalidated(&token).await?;
        fixture.require_rejected_issue(1, 1).await?;
        // Also for a resource without a token.
        unused.issuer().close(unused.resource).await?;
        unused.require_rejected_issue(1, 1).await?;
    }
    Ok(())
}

async fn plaintexts_are_printable_and_unique(fixture: &IssuerFixture<'_>) -> Outcome {
    let (mut ids, mut plaintexts) = (BTreeSet::new(), BTreeSet::new());
    for epoch in 1..=16 {
        let token = fixture.issue(1, epoch).await?;
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
