//! Promises of `delay_event`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_delayed_event_holds_up_its_resource_only,
        only_a_rejection_counts_as_an_attempt,
        a_claim_that_was_delayed_is_lost,
    ]
}

/// Claims the one event that can be claimed, and delays it.
async fn delayed(
    world: &dyn StoreUnderTest,
    wait: Duration,
    failure: DeliveryFailure,
) -> Result<ClaimedEvent, Violation> {
    let event = world.claim_event("relay").await?;
    let answer = world.outbox().delay_event(&event.claim, wait, failure).await?;
    same("a delay is answered", &answer, &Acknowledged::Done)?;
    Ok(event)
}

async fn a_delayed_event_holds_up_its_resource_only(world: &dyn StoreUnderTest) -> Outcome {
    for failure in [DeliveryFailure::Rejected, DeliveryFailure::Unavailable] {
        let number = match failure {
            DeliveryFailure::Rejected => 1,
            DeliveryFailure::Unavailable => 3,
        };
        world.stored(&resource().numbered(number).ready()).await?;
        let event = delayed(world, HOUR, failure).await?;
        world.stored(&resource().numbered(number + 1).ready()).await?;
        let others = world.deliver_all().await?;
        same("so many of the other resource were delivered", &others.len(), &2)?;
        let overtaken = others.iter().any(|other| other.resource == event.resource);
        require(!overtaken, "an event was delivered before its delay was over")?;
        let backlog = world.outbox().backlog().await?;
        same("there are", &(backlog.depth, backlog.set_aside), &(2, 0))?;
        world.advance(HOUR * 2).await?;
        let own: Vec<_> =
            world.deliver_all().await?.into_iter().map(|event| event.sequence).collect();
        same("after the delay come", &own, &vec![1, 2])?;
    }
    Ok(())
}

async fn only_a_rejection_counts_as_an_attempt(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource()).await?;
    for (failure, attempts) in [
        (DeliveryFailure::Unavailable, 0),
        (DeliveryFailure::Rejected, 1),
        (DeliveryFailure::Unavailable, 1),
        (DeliveryFailure::Rejected, 2),
    ] {
        delayed(world, Duration::ZERO, failure).await?;
        world.advance(HOUR).await?;
        let next = world.claim_event("relay").await?;
        same("the attempts are", &next.attempts, &attempts)?;
        world.advance(HOUR * 2).await?;
    }
    Ok(())
}

async fn a_claim_that_was_delayed_is_lost(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let event = delayed(world, HOUR, DeliveryFailure::Rejected).await?;
    let before = world.facts(stored.id()).await?;
    for answer in [
        world.outbox().delay_event(&event.claim, HOUR * 9, DeliveryFailure::Rejected).await?,
        world.outbox().set_aside_event(&event.claim, "late").await?,
        world.outbox().acknowledge_event(&event.claim).await?,
    ] {
        same("a claim from before is answered", &answer, &Acknowledged::ClaimLost)?;
    }
    world.require_untouched(stored.id(), &before).await?;
    world.advance(HOUR * 2).await?;
    let again = world.claim_event("relay").await?;
    same("the attempts are", &again.attempts, &1)
}
