//! Promises of `claim_events`, `acknowledge_event`, `purge_events` and `backlog`.

use std::collections::BTreeMap;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        events_come_as_they_were_committed,
        of_each_resource_only_the_earliest_event_is_claimed,
        events_of_a_resource_arrive_in_order_without_a_gap,
        of_16_claims_on_one_event_one_gets_it,
        a_claim_that_is_over_makes_room_and_is_no_attempt,
        an_acknowledged_event_makes_room_for_the_next,
        a_lost_claim_acknowledges_nothing,
        a_late_acknowledgement_is_taken_if_nobody_claimed_since,
        an_event_is_acknowledged_once,
        no_more_events_are_claimed_than_were_asked_for,
        a_write_that_lost_its_race_leaves_no_event,
        only_events_that_were_acknowledged_for_long_are_purged,
        a_purge_of_events_takes_no_more_than_it_was_told,
        a_skipped_event_is_purged_like_any_other,
        the_backlog_counts_what_waits,
    ]
}

async fn events_come_as_they_were_committed(world: &dyn StoreUnderTest) -> Outcome {
    let builder = resource().deleted();
    world.stored(&builder).await?;
    let life = builder.life();
    let events = std::iter::once(&life.declared)
        .chain(life.then.iter().map(|(_, change)| change))
        .filter_map(|change| change.event());
    let delivered = world.deliver_all().await?;
    same("there are events", &delivered.len(), &4)?;
    for (claimed, event) in delivered.iter().zip(events) {
        same("the event's id is", &claimed.claim.event_id, &event.id())?;
        same("its resource is", &claimed.resource, &builder.id())?;
        same("its sequence is", &claimed.sequence, &event.sequence())?;
        same("its type is", &claimed.event_type, &event.event_type())?;
        same("it occurred at", &claimed.occurred_at, &event.occurred_at())?;
        same("its bytes are", &claimed.payload, &wire::encode(event))?;
    }
    Ok(())
}

async fn of_each_resource_only_the_earliest_event_is_claimed(
    world: &dyn StoreUnderTest,
) -> Outcome {
    for number in 1..=3 {
        world.stored(&resource().numbered(number).deleted()).await?;
    }
    let mut claimed: Vec<_> = world
        .claim_events("a", 100)
        .await?
        .into_iter()
        .map(|event| (event.resource, event.sequence))
        .collect();
    claimed.sort_unstable();
    same("claimed was", &claimed, &[(id(1), 1), (id(2), 1), (id(3), 1)].to_vec())?;
    same("a second claim gets", &world.claim_events("b", 100).await?, &vec![])
}

async fn events_of_a_resource_arrive_in_order_without_a_gap(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=3 {
        let builder = resource().numbered(number).in_project(project(number));
        world.stored(&builder.deleted()).await?;
    }
    let mut arrived: BTreeMap<ProvisionedResourceId, Vec<u64>> = BTreeMap::new();
    for event in world.deliver_all().await? {
        arrived.entry(event.resource).or_default().push(event.sequence);
    }
    let expected = (1..=3).map(|number| (id(number), vec![1, 2, 3, 4])).collect();
    same("they arrived", &arrived, &expected)
}

async fn of_16_claims_on_one_event_one_gets_it(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource()).await?;
    let requests: Vec<_> = (0..16)
        .map(|number| ClaimEvents::new(worker(&format!("relay-{number}")), rows(10), HOUR))
        .collect();
    let answers =
        try_join_all(requests.iter().map(|request| world.outbox().claim_events(request))).await?;
    same("so many got it", &answers.iter().flatten().count(), &1)
}

async fn a_claim_that_is_over_makes_room_and_is_no_attempt(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource()).await?;
    for _ in 0..3 {
        let event = world.claim_event("relay").await?;
        same("the attempts are", &event.attempts, &0)?;
        same("while it lives, another gets", &world.claim_events("b", 10).await?, &vec![])?;
        world.advance(HOUR * 2).await?;
    }
    Ok(())
}

async fn an_acknowledged_event_makes_room_for_the_next(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource().deregistering()).await?;
    let mut types = Vec::new();
    for _ in 0..3 {
        let event = world.claim_event("relay").await?;
        world.acknowledge(&event).await?;
        types.push(event.event_type);
    }
    let expected = vec![EventType::Requested, EventType::Ready, EventType::Deleting];
    same("they arrived", &types, &expected)?;
    same("there is left", &world.claim_events("relay", 10).await?, &vec![])?;
    world.advance(LONG).await?;
    same("later there is", &world.claim_events("relay", 10).await?, &vec![])
}

async fn a_lost_claim_acknowledges_nothing(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    for successor in ["a", "b"] {
        let lost = world.claim_event("a").await?;
        world.advance(HOUR * 2).await?;
        world.claim_event(successor).await?;
        let before = world.facts(stored.id()).await?;
        let answer = world.outbox().acknowledge_event(&lost.claim).await?;
        same("it is answered", &answer, &Acknowledged::ClaimLost)?;
        let delayed = world.outbox().delay_event(&lost.claim, HOUR, DeliveryFailure::Rejected);
        same("it is answered", &delayed.await?, &Acknowledged::ClaimLost)?;
        let answer = world.outbox().set_aside_event(&lost.claim, "late").await?;
        same("it is answered", &answer, &Acknowledged::ClaimLost)?;
        world.require_untouched(stored.id(), &before).await?;
        same("the next event is held up", &world.claim_events("c", 10).await?, &vec![])?;
        world.advance(HOUR * 2).await?;
    }
    Ok(())
}

async fn a_late_acknowledgement_is_taken_if_nobody_claimed_since(
    world: &dyn StoreUnderTest,
) -> Outcome {
    world.stored(&resource()).await?;
    let event = world.claim_event("slow").await?;
    world.advance(HOUR * 2).await?;
    world.acknowledge(&event).await?;
    same("there is left", &world.claim_events("relay", 10).await?, &vec![])
}

async fn an_event_is_acknowledged_once(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    let event = world.claim_event("relay").await?;
    world.acknowledge(&event).await?;
    let before = world.facts(stored.id()).await?;
    let answer = world.outbox().acknowledge_event(&event.claim).await?;
    same("a second time is answered", &answer, &Acknowledged::ClaimLost)?;
    world.require_untouched(stored.id(), &before).await
}

async fn no_more_events_are_claimed_than_were_asked_for(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=5 {
        world.stored(&resource().numbered(number)).await?;
    }
    let mut claimed = Vec::new();
    for expected in [2, 2, 1, 0] {
        let events = world.claim_events("relay", 2).await?;
        same("so many were claimed", &events.len(), &expected)?;
        claimed.extend(events.into_iter().map(|event| event.resource));
    }
    let distinct: BTreeSet<_> = claimed.into_iter().collect();
    same("in the end each was claimed", &distinct, &(1..=5).map(id).collect())
}

async fn a_write_that_lost_its_race_leaves_no_event(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().enrolling().with_token()).await?;
    let winner = to(&stored, Phase::Ready, 1)?;
    let loser = to(&stored, Phase::Ready, 2)?;
    world.commit(WriteKind::Phase, &winner).await?;
    let written = world.attempt(WriteKind::Phase, &loser, None).await?;
    same("it is answered", &written, &Written::Stale)?;
    let ids: Vec<_> =
        world.deliver_all().await?.into_iter().map(|event| event.claim.event_id).collect();
    let told = loser.event().is_some_and(|event| ids.contains(&event.id()));
    require(!told, "the event of a change that never was is delivered")?;
    same("there are events", &ids.len(), &2)
}

async fn only_events_that_were_acknowledged_for_long_are_purged(
    world: &dyn StoreUnderTest,
) -> Outcome {
    world.stored(&resource().ready()).await?;
    let first = world.claim_event("relay").await?;
    world.acknowledge(&first).await?;
    same("at once it purged", &world.outbox().purge_events(HOUR, rows(10)).await?, &0)?;
    world.advance(LONG).await?;
    let second = world.claim_event("relay").await?;
    world.acknowledge(&second).await?;
    world.stored(&resource().numbered(2)).await?;
    same("later it purged", &world.outbox().purge_events(HOUR, rows(10)).await?, &1)?;
    same("a second time it purged", &world.outbox().purge_events(HOUR, rows(10)).await?, &0)?;
    world.advance(LONG).await?;
    same("in the end it purged", &world.outbox().purge_events(HOUR, rows(10)).await?, &1)?;
    same("there is left", &world.outbox().backlog().await?.depth, &1)
}

async fn a_purge_of_events_takes_no_more_than_it_was_told(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=5 {
        world.stored(&resource().numbered(number)).await?;
    }
    world.deliver_all().await?;
    world.advance(LONG).await?;
    for expected in [2, 2, 1, 0] {
        let purged = world.outbox().purge_events(HOUR, rows(2)).await?;
        same("so many were purged", &purged, &expected)?;
    }
    Ok(())
}

async fn a_skipped_event_is_purged_like_any_other(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let event = world.claim_event("relay").await?;
    let taken = world.outbox().set_aside_event(&event.claim, "HTTP 410").await?;
    same("setting aside is answered", &taken, &Acknowledged::Done)?;
    world.advance(LONG).await?;
    let purge = world.outbox().purge_events(HOUR, rows(10));
    same("of what was set aside it purged", &purge.await?, &0)?;
    world.outbox().resume_events(stored.id(), Resume::Skip, &attribution()).await?;
    let purge = world.outbox().purge_events(HOUR, rows(10));
    same("of what was just skipped it purged", &purge.await?, &0)?;
    world.advance(LONG).await?;
    let purge = world.outbox().purge_events(HOUR, rows(10));
    same("of what was skipped long ago it purged", &purge.await?, &1)
}

async fn the_backlog_counts_what_waits(world: &dyn StoreUnderTest) -> Outcome {
    let empty = world.outbox().backlog().await?;
    same("at first there is", &(empty.depth, empty.set_aside, empty.oldest), &(0, 0, None))?;
    let early = world.stored(&resource()).await?;
    world.advance(HOUR).await?;
    world.stored(&resource().numbered(2).ready()).await?;
    let backlog = world.outbox().backlog().await?;
    same("then there are", &(backlog.depth, backlog.set_aside), &(3, 0))?;
    let created = world.repository().history(early.id()).await?.first().map(|line| line.at);
    same("the oldest was committed", &backlog.oldest, &created)?;
    let events = world.claim_events("relay", 10).await?;
    same("a claim leaves", &world.outbox().backlog().await?.depth, &3)?;
    for event in &events {
        world.acknowledge(event).await?;
    }
    let backlog = world.outbox().backlog().await?;
    same("in the end there is", &(backlog.depth, backlog.set_aside), &(1, 0))?;
    require(backlog.oldest > created, "the oldest is one that was acknowledged")
}
