//! What the relay relies on when it hands an event over.

use broker_domain::{EventId, EventType, ProvisionedResourceId};
use broker_ports::Envelope;
use futures_util::future::try_join_all;
use uuid::Uuid;

use super::EventSinkUnderTest;
use crate::prelude::*;

pub(super) fn cases<W: EventSinkUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of![
        bytes_arrive_as_they_are,
        events_that_come_twice_keep_their_order,
        resources_arrive_side_by_side,
        a_sink_that_is_cut_off_delivers_nothing,
    ];
    cases.extend(dropping_suite_of![a_delivery_that_was_dropped_leaves_no_half_event]);
    cases
}

async fn bytes_arrive_as_they_are(world: &dyn EventSinkUnderTest) -> Outcome {
    let mut envelope = envelope(1, 1)?;
    // Spaces, an escape and a letter outside of ASCII: whoever parses and prints again changes these.
    envelope.json = "{ \"subject\" : \"caf\\u00e9 é\",\"b\":1, \"a\":1.0 }".into();
    world.sink().deliver(&envelope).await?;
    let received = world.received(envelope.resource).await?;
    require(received == [envelope.json], "the bytes were changed on their way")
}

async fn events_that_come_twice_keep_their_order(world: &dyn EventSinkUnderTest) -> Outcome {
    let envelopes = (1..=9).map(|n| envelope(1, n)).collect::<Result<Vec<_>, _>>()?;
    for envelope in &envelopes {
        for _ in 0..2 {
            world.sink().deliver(envelope).await?;
        }
    }
    arrived(world, &envelopes).await
}

async fn resources_arrive_side_by_side(world: &dyn EventSinkUnderTest) -> Outcome {
    let of = |resource| (1..=4).map(move |n| envelope(resource, n)).collect::<Result<Vec<_>, _>>();
    let resources = (1..=8).map(of).collect::<Result<Vec<_>, _>>()?;
    let deliveries = resources.iter().map(|envelopes| async move {
        for envelope in envelopes {
            world.sink().deliver(envelope).await?;
        }
        Ok::<_, Violation>(())
    });
    try_join_all(deliveries).await?;
    for envelopes in &resources {
        arrived(world, envelopes).await?;
    }
    Ok(())
}

async fn a_delivery_that_was_dropped_leaves_no_half_event(
    world: &dyn EventSinkUnderTest,
    polls: u32,
) -> Dropped {
    let envelopes = [envelope(polls.into(), 1)?, envelope(polls.into(), 2)?];
    let answer = dropped_after(polls, world.sink().deliver(&envelopes[0])).await;
    // The relay tries again, and goes on.
    for envelope in &envelopes {
        world.sink().deliver(envelope).await?;
    }
    let received = world.received(envelopes[0].resource).await?;
    let sent = envelopes.map(|envelope| envelope.json);
    require(received.iter().all(|bytes| sent.contains(bytes)), "half an event arrived")?;
    // What was dropped may land late and so once more; what counts is when each came first.
    let first = sent.map(|bytes| received.iter().position(|received| *received == bytes));
    let in_order = matches!(first, [Some(one), Some(two)] if one < two);
    require(in_order, "after a dropped delivery the events are not there in their order")?;
    Ok(answer.is_some())
}

async fn a_sink_that_is_cut_off_delivers_nothing(world: &dyn EventSinkUnderTest) -> Outcome {
    let (before, after) = (envelope(1, 1)?, envelope(1, 2)?);
    world.sink().deliver(&before).await?;
    world.cut_off().await?;
    // One that arrived and one that did not: an event that is called delivered is never sent again.
    for envelope in [&before, &after] {
        require_outage(world.sink().deliver(envelope).await, "deliver")?;
    }
    Ok(())
}

/// Each once in its place; the same one again right behind it does not count.
async fn arrived(world: &dyn EventSinkUnderTest, envelopes: &[Envelope]) -> Outcome {
    let Some(first) = envelopes.first() else { return Ok(()) };
    let mut received = world.received(first.resource).await?;
    received.dedup();
    let sent: Vec<_> = envelopes.iter().map(|envelope| envelope.json.clone()).collect();
    require(received == sent, "not every envelope arrived, in order")
}

fn envelope(resource: u64, sequence: u64) -> Checked<Envelope> {
    let event_id = EventId::new(Uuid::from_u64_pair(resource, sequence))?;
    let resource = ProvisionedResourceId::new(Uuid::from_u64_pair(resource, u64::MAX))?;
    let json = format!(
        r#"{{"specversion":"1.0","id":"{event_id}","subject":"{resource}","data":{sequence}}}"#
    );
    let event_type = EventType::Ready;
    Ok(Envelope::new(event_id, event_type, resource, sequence, json.into_bytes()))
}
