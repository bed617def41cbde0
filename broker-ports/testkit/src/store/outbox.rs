//! Cases for `claim_events`, `acknowledge_event`, `purge_events` and `backlog`.

use broker_domain::MeshRole;
use broker_ports::{Admitted, TraceParent};

use super::prelude::*;
use crate::builders::valid_parameters;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        events_are_claimed_as_committed,
        only_the_earliest_event_of_a_resource_is_claimed,
        concurrent_claims_of_one_event_have_one_winner,
        an_expired_event_claim_is_not_an_attempt,
        a_lost_event_claim_acknowledges_nothing,
        an_event_claim_respects_its_limit,
        only_long_settled_events_are_purged,
        the_backlog_counts_unacknowledged_events,
        a_workers_event_continues_the_trace_of_the_request,
        a_purged_event_leaves_no_trace_context,
    ]
}

async fn events_are_claimed_as_committed(world: &World) -> Outcome {
    let builder = resource().deleted();
    world.store(&builder).await?;
    let history = builder.history();
    let events = std::iter::once(&history.declared)
        .chain(history.later.iter().map(|(_, change)| change))
        .filter_map(|change| change.event());
    let delivered = world.deliver_all().await?;
    equal("the number of events", &delivered.len(), &4)?;
    for (claimed, event) in delivered.iter().zip(events) {
        equal("the id of the event", &claimed.claim.event_id, &event.id())?;
        equal("the resource of the event", &claimed.resource, &builder.id())?;
        equal("the sequence of the event", &claimed.sequence, &event.sequence())?;
        equal("the type of the event", &claimed.event_type, &event.event_type())?;
        equal("the time of the event", &claimed.occurred_at, &event.occurred_at())?;
        equal("the bytes of the event", &claimed.payload, &wire::encode(event))?;
    }
    Ok(())
}

async fn only_the_earliest_event_of_a_resource_is_claimed(world: &World) -> Outcome {
    let in_project = |number| nth_resource(number).in_project(project(number)).deleted();
    world.store_all((1..=3).map(in_project)).await?;
    for sequence in 1..=4 {
        let events = world.claim_events("a", 100).await?;
        let mut claimed: Vec<_> =
            events.iter().map(|event| (event.resource, event.sequence)).collect();
        claimed.sort_unstable();
        let expected = ids(1..=3).into_iter().map(|id| (id, sequence)).collect();
        equal("the claimed events", &claimed, &expected)?;
        equal("the events of a second claim", &world.claim_events("b", 100).await?, &vec![])?;
        for event in &events {
            world.acknowledge(event).await?;
        }
    }
    // In order, without gaps or extra events.
    equal("the remaining events", &world.deliver_all().await?, &vec![])
}

async fn concurrent_claims_of_one_event_have_one_winner(world: &World) -> Outcome {
    world.store(&resource()).await?;
    let names: Vec<_> = (0..16).map(|number| format!("relay-{number}")).collect();
    let results = try_join_all(names.iter().map(|name| world.claim_events(name, 10))).await?;
    equal("the number of claims", &results.iter().flatten().count(), &1)
}

async fn an_expired_event_claim_is_not_an_attempt(world: &World) -> Outcome {
    world.store(&resource()).await?;
    for _ in 0..3 {
        let event = world.claim_event("relay").await?;
        equal("the attempts", &event.attempts, &0)?;
        equal("the events of a second claim", &world.claim_events("b", 10).await?, &vec![])?;
        world.advance(HOUR * 2).await?;
    }
    // A late acknowledgement counts unless another relay claimed the event.
    let event = world.claim_event("slow").await?;
    world.advance(HOUR * 2).await?;
    world.acknowledge(&event).await?;
    equal("the remaining events", &world.claim_events("relay", 10).await?, &vec![])
}

async fn a_lost_event_claim_acknowledges_nothing(world: &World) -> Outcome {
    world.store(&resource().ready()).await?;
    for successor in ["a", "b"] {
        let expired = world.claim_event("a").await?;
        world.advance(HOUR * 2).await?;
        world.claim_event(successor).await?;
        world.require_claim_lost(&expired).await?;
        equal("the events behind a claimed event", &world.claim_events("c", 10).await?, &vec![])?;
        world.advance(HOUR * 2).await?;
    }
    // An event is acknowledged once.
    let event = world.claim_event("relay").await?;
    world.acknowledge(&event).await?;
    world.require_claim_lost(&event).await
}

async fn an_event_claim_respects_its_limit(world: &World) -> Outcome {
    world.store_all((1..=5).map(nth_resource)).await?;
    let mut claimed = Vec::new();
    for expected in [2, 2, 1, 0] {
        let events = world.claim_events("relay", 2).await?;
        equal("the number of claimed events", &events.len(), &expected)?;
        claimed.extend(events.into_iter().map(|event| event.resource));
    }
    let distinct: BTreeSet<_> = claimed.into_iter().collect();
    equal("the distinct claimed resources", &distinct, &(1..=5).map(id).collect())
}

async fn only_long_settled_events_are_purged(world: &World) -> Outcome {
    let purged = async |limit| world.outbox().purge_events(HOUR, rows(limit)).await;
    let stored = world.store(&resource().deregistering()).await?;
    let first = world.claim_event("relay").await?;
    world.acknowledge(&first).await?;
    equal("the events purged at once", &purged(10).await?, &0)?;
    world.advance(LONG).await?;
    let second = world.claim_event("relay").await?;
    world.acknowledge(&second).await?;
    world.dead_letter("HTTP 410").await?;
    equal("the events purged later", &purged(10).await?, &1)?;
    equal("the events purged by a second call", &purged(10).await?, &0)?;
    world.advance(LONG).await?;
    equal("the events purged besides a dead letter", &purged(10).await?, &1)?;
    world.redrive(stored.id(), Redrive::Skip).await?;
    equal("the events purged right after a skip", &purged(10).await?, &0)?;
    world.store_all((2..=5).map(nth_resource)).await?;
    world.deliver_all().await?;
    world.store(&nth_resource(6)).await?;
    world.advance(LONG).await?;
    // Five events are settled; each call purges at most two.
    for expected in [2, 2, 1, 0] {
        equal("the number of purged events", &purged(2).await?, &expected)?;
    }
    equal("the remaining events", &world.backlog().await?.0, &1)
}

async fn the_backlog_counts_unacknowledged_events(world: &World) -> Outcome {
    let empty = world.outbox().backlog().await?;
    equal("the empty backlog", &(empty.depth, empty.dead_letter, empty.oldest), &(0, 0, None))?;
    let first = world.store(&resource()).await?;
    world.advance(HOUR).await?;
    world.store(&nth_resource(2).ready()).await?;
    equal("the backlog after two creations", &world.backlog().await?, &(3, 0))?;
    let created = world.repository().history(first.id()).await?.first().map(|line| line.at);
    let oldest = world.outbox().backlog().await?.oldest;
    equal("the commit time of the oldest event", &oldest, &created)?;
    let events = world.claim_events("relay", 10).await?;
    equal("the backlog after a claim", &world.backlog().await?.0, &3)?;
    for event in &events {
        world.acknowledge(event).await?;
    }
    equal("the backlog after the acknowledgements", &world.backlog().await?, &(1, 0))?;
    let oldest = world.outbox().backlog().await?.oldest;
    require(oldest > created, "the oldest event was already acknowledged")
}

/// The trace of a request.
fn trace() -> Checked<TraceParent> {
    Ok(TraceParent::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")?)
}

/// Stores a resource that was declared in a trace.
async fn declare_in_trace(world: &World) -> Checked<ProvisionedResource> {
    let builder = resource().standalone();
    let mut by = attribution();
    by.traceparent = Some(trace()?);
    world.register_references(&builder.declaration()).await?;
    let admitted = Admitted::new(
        builder.id(),
        &builder.declaration(),
        MeshRole::Standalone,
        valid_parameters("{}"),
        fresh_stamp(1),
        by,
    )?;
    let created = world.repository().create(&admitted).await?;
    equal("the result of a creation", &created, &Created::Stored)?;
    world.get(builder.id()).await
}

/// A worker advances a Pending resource to Ready.
async fn make_ready(world: &World, pending: &ProvisionedResource) -> Checked<ProvisionedResource> {
    let lease = world.take_lease("worker", pending.id()).await?;
    world.commit_as(&lease, &phase_change(pending, Phase::Provisioning, 2)?).await?;
    let provisioning = world.get(pending.id()).await?;
    world.commit_as(&lease, &phase_change(&provisioning, Phase::Ready, 3)?).await?;
    world.get(pending.id()).await
}

async fn a_workers_event_continues_the_trace_of_the_request(world: &World) -> Outcome {
    let pending = declare_in_trace(world).await?;
    let ready = make_ready(world, &pending).await?;
    // This request has no trace.
    world.commit(WriteKind::DeletionIntent, &deletion_request(&ready, 4)?).await?;
    let delivered = world.deliver_all().await?;
    let traces: Vec<_> = delivered.into_iter().map(|event| event.traceparent).collect();
    equal("the traces", &traces, &vec![Some(trace()?), Some(trace()?), None])?;
    let trail = world.repository().history(ready.id()).await?;
    let audit_has_trace = trail.iter().any(|line| line.entry.attribution.traceparent.is_some());
    require(!audit_has_trace, "an audit line names a trace")
}

async fn a_purged_event_leaves_no_trace_context(world: &World) -> Outcome {
    let pending = declare_in_trace(world).await?;
    world.deliver_all().await?;
    world.advance(LONG).await?;
    world.outbox().purge_events(HOUR, rows(10)).await?;
    make_ready(world, &pending).await?;
    let delivered = world.deliver_all().await?;
    let traces: Vec<_> = delivered.into_iter().map(|event| event.traceparent).collect();
    equal("the traces", &traces, &vec![None])
}
