//! Cases for `delay_event`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![a_delayed_event_blocks_only_its_own_resource, only_a_rejection_counts_as_an_attempt,]
}

/// Claims the only claimable event and delays it.
async fn delay_event(
    world: &World,
    wait: Duration,
    failure: DeliveryFailure,
) -> Checked<ClaimedEvent> {
    let event = world.claim_event("relay").await?;
    let result = world.outbox().delay_event(&event.claim, wait, failure).await?;
    equal("the result of a delay", &result, &Acknowledged::Done)?;
    Ok(event)
}

async fn a_delayed_event_blocks_only_its_own_resource(world: &World) -> Outcome {
    for (number, failure) in [(1, DeliveryFailure::Rejected), (3, DeliveryFailure::Unavailable)] {
        world.store(&nth_resource(number).ready()).await?;
        let event = delay_event(world, HOUR, failure).await?;
        world.store(&nth_resource(number + 1).ready()).await?;
        let other_events = world.deliver_all().await?;
        equal("the delivered events of the other resource", &other_events.len(), &2)?;
        let too_early = other_events.iter().any(|other| other.resource == event.resource);
        require(!too_early, "an event was delivered before its delay was over")?;
        equal("the backlog", &world.backlog().await?, &(2, 0))?;
        world.advance(HOUR * 2).await?;
        equal("the events after the delay", &sequences(&world.deliver_all().await?), &vec![1, 2])?;
    }
    Ok(())
}

async fn only_a_rejection_counts_as_an_attempt(world: &World) -> Outcome {
    world.store(&resource()).await?;
    for (failure, attempts) in [
        (DeliveryFailure::Unavailable, 0),
        (DeliveryFailure::Rejected, 1),
        (DeliveryFailure::Unavailable, 1),
        (DeliveryFailure::Rejected, 2),
    ] {
        let event = delay_event(world, Duration::ZERO, failure).await?;
        world.require_claim_lost(&event).await?;
        world.advance(HOUR).await?;
        let next = world.claim_event("relay").await?;
        equal("the attempts", &next.attempts, &attempts)?;
        world.advance(HOUR * 2).await?;
    }
    Ok(())
}
