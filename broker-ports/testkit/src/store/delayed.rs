//! Cases for `delay_event`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![a_delayed_event_blocks_only_its_own_resource, only_a_rejection_counts_as_an_attempt,]
}

/// Claims the only claimable event and delays it.
async fn delayed(world: &World, wait: Duration, failure: DeliveryFailure) -> Checked<ClaimedEvent> {
    let event = world.claim_event("relay").await?;
    let answer = world.outbox().delay_event(&event.claim, wait, failure).await?;
    same("the result of a delay", &answer, &Acknowledged::Done)?;
    Ok(event)
}

async fn a_delayed_event_blocks_only_its_own_resource(world: &World) -> Outcome {
    for (number, failure) in [(1, DeliveryFailure::Rejected), (3, DeliveryFailure::Unavailable)] {
        world.stored(&numbered(number).ready()).await?;
        let event = delayed(world, HOUR, failure).await?;
        world.stored(&numbered(number + 1).ready()).await?;
        let others = world.deliver_all().await?;
        same("the delivered events of the other resource", &others.len(), &2)?;
        let overtaken = others.iter().any(|other| other.resource == event.resource);
        require(!overtaken, "an event was delivered before its delay was over")?;
        same("there are", &world.backlog().await?, &(2, 0))?;
        world.advance(HOUR * 2).await?;
        same("the events after the delay", &sequences(&world.deliver_all().await?), &vec![1, 2])?;
    }
    Ok(())
}

async fn only_a_rejection_counts_as_an_attempt(world: &World) -> Outcome {
    world.stored(&resource()).await?;
    for (failure, attempts) in [
        (DeliveryFailure::Unavailable, 0),
        (DeliveryFailure::Rejected, 1),
        (DeliveryFailure::Unavailable, 1),
        (DeliveryFailure::Rejected, 2),
    ] {
        let event = delayed(world, Duration::ZERO, failure).await?;
        world.claim_is_lost(&event).await?;
        world.advance(HOUR).await?;
        let next = world.claim_event("relay").await?;
        same("the attempts are", &next.attempts, &attempts)?;
        world.advance(HOUR * 2).await?;
    }
    Ok(())
}
