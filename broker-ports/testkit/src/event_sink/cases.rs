//! Cases for the delivery of events.

use broker_domain::{EventId, EventType, ProvisionedResourceId};
use broker_ports::Envelope;
use futures_util::future::try_join_all;
use uuid::Uuid;

use super::EventSinkUnderTest;
use crate::prelude::*;

pub(super) fn cases<W: EventSinkUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of![
        envelope_bytes_arrive_unchanged,
        repeated_events_keep_their_order,
        events_of_several_resources_arrive_concurrently,
        an_unreachable_sink_delivers_nothing,
    ];
    cases.extend(dropping_suite_of![a_dropped_delivery_leaves_no_partial_event]);
    cases
}

async fn envelope_bytes_arrive_unchanged(world: &dyn EventSinkUnderTest) -> Outcome {
    let mut envelope = envelope(1, 1)?;
    // Spaces, an escape and a letter outside of ASCII: parsing and re-encoding would change them.
    envelope.json = "{ \"subject\" : \"caf\\u00e9 é\",\"b\":1, \"a\":1.0 }".into();
    world.sink().deliver(&envelope).await?;
    let received = world.received(envelope.resource).await?;
    require(received == [envelope.json], "the received bytes differ from the sent bytes")
}

async fn repeated_events_keep_their_order(world: &dyn EventSinkUnderTest) -> Outcome {
    let envelopes = (1..=9).map(|n| envelope(1, n)).collect::<Result<Vec<_>, _>>()?;
    for envelope in &envelopes {
        for _ in 0..2 {
            world.sink().deliver(envelope).await?;
        }
    }
    require_received(world, &envelopes).await
}

async fn events_of_several_resources_arrive_concurrently(
    world: &dyn EventSinkUnderTest,
) -> Outcome {
    let envelopes_of =
        |resource| (1..=4).map(move |n| envelope(resource, n)).collect::<Result<Vec<_>, _>>();
    let resources = (1..=8).map(envelopes_of).collect::<Result<Vec<_>, _>>()?;
    let deliveries = resources.iter().map(|envelopes| async move {
        for envelope in envelopes {
            world.sink().deliver(envelope).await?;
        }
        Ok::<_, Violation>(())
    });
    try_join_all(deliveries).await?;
    for envelopes in &resources {
        require_received(world, envelopes).await?;
    }
    Ok(())
}

async fn a_dropped_delivery_leaves_no_partial_event(
    world: &dyn EventSinkUnderTest,
    polls: u32,
) -> Dropped {
    let envelopes = [envelope(polls.into(), 1)?, envelope(polls.into(), 2)?];
    let result = dropped_after(polls, world.sink().deliver(&envelopes[0])).await;
    // The relay retries the event and continues with the next.
    for envelope in &envelopes {
        world.sink().deliver(envelope).await?;
    }
    let received = world.received(envelopes[0].resource).await?;
    let sent = envelopes.map(|envelope| envelope.json);
    require(received.iter().all(|bytes| sent.contains(bytes)), "a partial event arrived")?;
    // A dropped delivery may arrive late, so an event may arrive twice. Only the first arrival counts.
    let first_arrivals = sent.map(|bytes| received.iter().position(|received| *received == bytes));
    let in_order = matches!(first_arrivals, [Some(one), Some(two)] if one < two);
    require(in_order, "after a dropped delivery, events are missing or out of order")?;
    Ok(result.is_some())
}

async fn an_unreachable_sink_delivers_nothing(world: &dyn EventSinkUnderTest) -> Outcome {
    let (before, after) = (envelope(1, 1)?, envelope(1, 2)?);
    world.sink().deliver(&before).await?;
    world.cut_off().await?;
    // Neither a delivered event nor a new one may be reported as delivered.
    for envelope in [&before, &after] {
        require_outage(world.sink().deliver(envelope).await, "deliver")?;
    }
    Ok(())
}

/// Checks that each event was received, in order. An immediate repetition does not count.
async fn require_received(world: &dyn EventSinkUnderTest, envelopes: &[Envelope]) -> Outcome {
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
