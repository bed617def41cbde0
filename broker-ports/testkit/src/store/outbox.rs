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
        a_purged_event_passes_on_no_trace,
    ]
}

async fn events_are_claimed_as_committed(world: &World) -> Outcome {
    let builder = resource().deleted();
    world.stored(&builder).await?;
    let life = builder.life();
    let events = std::iter::once(&life.declared)
        .chain(life.then.iter().map(|(_, change)| change))
        .filter_map(|change| change.event());
    let delivered = world.deliver_all().await?;
    same("the number of events", &delivered.len(), &4)?;
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

async fn only_the_earliest_event_of_a_resource_is_claimed(world: &World) -> Outcome {
    let of_project = |number| numbered(number).in_project(project(number)).deleted();
    world.store_all((1..=3).map(of_project)).await?;
    for sequence in 1..=4 {
        let events = world.claim_events("a", 100).await?;
        let mut claimed: Vec<_> = events.iter().map(|it| (it.resource, it.sequence)).collect();
        claimed.sort_unstable();
        let expected = ids(1..=3).into_iter().map(|id| (id, sequence)).collect();
        same("claimed was", &claimed, &expected)?;
        same("a second claim gets", &world.claim_events("b", 100).await?, &vec![])?;
        for event in &events {
            world.acknowledge(event).await?;
        }
    }
    // In order, without gaps or extra events.
    same("the remaining events", &world.deliver_all().await?, &vec![])
}

async fn concurrent_claims_of_one_event_have_one_winner(world: &World) -> Outcome {
    world.stored(&resource()).await?;
    let names: Vec<_> = (0..16).map(|number| format!("relay-{number}")).collect();
    let answers = try_join_all(names.iter().map(|name| world.claim_events(name, 10))).await?;
    same("the number of claims", &answers.iter().flatten().count(), &1)
}

async fn an_expired_event_claim_is_not_an_attempt(world: &World) -> Outcome {
    world.stored(&resource()).await?;
    for _ in 0..3 {
        let event = world.claim_event("relay").await?;
        same("the attempts are", &event.attempts, &0)?;
        same("while it lives, another gets", &world.claim_events("b", 10).await?, &vec![])?;
        world.advance(HOUR * 2).await?;
    }
    // A late acknowledgement counts unless another relay claimed the event.
    let event = world.claim_event("slow").await?;
    world.advance(HOUR * 2).await?;
    world.acknowledge(&event).await?;
    same("the remaining events", &world.claim_events("relay", 10).await?, &vec![])
}

async fn a_lost_event_claim_acknowledges_nothing(world: &World) -> Outcome {
    world.stored(&resource().ready()).await?;
    for successor in ["a", "b"] {
        let lost = world.claim_event("a").await?;
        world.advance(HOUR * 2).await?;
        world.claim_event(successor).await?;
        world.claim_is_lost(&lost).await?;
        same("the next event is held up", &world.claim_events("c", 10).await?, &vec![])?;
        world.advance(HOUR * 2).await?;
    }
    // An event is acknowledged once.
    let event = world.claim_event("relay").await?;
    world.acknowledge(&event).await?;
    world.claim_is_lost(&event).await
}

async fn an_event_claim_respects_its_limit(world: &World) -> Outcome {
    world.store_all((1..=5).map(numbered)).await?;
    let mut claimed = Vec::new();
    for expected in [2, 2, 1, 0] {
        let events = world.claim_events("relay", 2).await?;
        same("the number of claimed events", &events.len(), &expected)?;
        claimed.extend(events.into_iter().map(|event| event.resource));
    }
    let distinct: BTreeSet<_> = claimed.into_iter().collect();
    same("in the end each was claimed", &distinct, &(1..=5).map(id).collect())
}

async fn only_long_settled_events_are_purged(world: &World) -> Outcome {
    let purged = async |limit| world.outbox().purge_events(HOUR, rows(limit)).await;
    let stored = world.stored(&resource().deregistering()).await?;
    let first = world.claim_event("relay").await?;
    world.acknowledge(&first).await?;
    same("at once it purged", &purged(10).await?, &0)?;
    world.advance(LONG).await?;
    let second = world.claim_event("relay").await?;
    world.acknowledge(&second).await?;
    world.dead_letter("HTTP 410").await?;
    same("later it purged", &purged(10).await?, &1)?;
    same("a second time it purged", &purged(10).await?, &0)?;
    world.advance(LONG).await?;
    same("the events purged besides a dead letter", &purged(10).await?, &1)?;
    world.resume(stored.id(), Redrive::Skip).await?;
    same("the events purged right after a skip", &purged(10).await?, &0)?;
    world.store_all((2..=5).map(numbered)).await?;
    world.deliver_all().await?;
    world.stored(&numbered(6)).await?;
    world.advance(LONG).await?;
    // Five by now, at most two per call.
    for expected in [2, 2, 1, 0] {
        same("the number of purged events", &purged(2).await?, &expected)?;
    }
    same("the remaining events", &world.backlog().await?.0, &1)
}

async fn the_backlog_counts_unacknowledged_events(world: &World) -> Outcome {
    let empty = world.outbox().backlog().await?;
    same("at first there is", &(empty.depth, empty.dead_letter, empty.oldest), &(0, 0, None))?;
    let early = world.stored(&resource()).await?;
    world.advance(HOUR).await?;
    world.stored(&numbered(2).ready()).await?;
    same("then there are", &world.backlog().await?, &(3, 0))?;
    let created = world.repository().history(early.id()).await?.first().map(|line| line.at);
    let oldest = world.outbox().backlog().await?.oldest;
    same("the oldest was committed", &oldest, &created)?;
    let events = world.claim_events("relay", 10).await?;
    same("a claim leaves", &world.backlog().await?.0, &3)?;
    for event in &events {
        world.acknowledge(event).await?;
    }
    same("in the end there is", &world.backlog().await?, &(1, 0))?;
    let oldest = world.outbox().backlog().await?.oldest;
    require(oldest > created, "the oldest is one that was acknowledged")
}

/// The trace of a request.
fn trace() -> Checked<TraceParent> {
    Ok(TraceParent::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")?)
}

/// Stores a resource that was declared in a trace.
async fn declared_in_a_trace(world: &World) -> Checked<ProvisionedResource> {
    let builder = resource().standalone();
    let mut by = attribution();
    by.traceparent = Some(trace()?);
    world.know(&builder.declaration()).await?;
    let admitted = Admitted::new(
        builder.id(),
        &builder.declaration(),
        MeshRole::Standalone,
        valid_parameters("{}"),
        fresh_stamp(1),
        by,
    )?;
    let created = world.repository().create(&admitted).await?;
    same("the answer is", &created, &Created::Stored)?;
    world.get(builder.id()).await
}

/// A worker advances a Pending resource to Ready.
async fn made_ready(world: &World, pending: &ProvisionedResource) -> Checked<ProvisionedResource> {
    let lease = world.hold("worker", pending.id()).await?;
    world.commit_as(&lease, &to(pending, Phase::Provisioning, 2)?).await?;
    let provisioning = world.get(pending.id()).await?;
    world.commit_as(&lease, &to(&provisioning, Phase::Ready, 3)?).await?;
    world.get(pending.id()).await
}

async fn a_workers_event_continues_the_trace_of_the_request(world: &World) -> Outcome {
    let pending = declared_in_a_trace(world).await?;
    let ready = made_ready(world, &pending).await?;
    // This request has no trace.
    world.commit(WriteKind::DeletionIntent, &deletion(&ready, 4)?).await?;
    let delivered = world.deliver_all().await?;
    let traces: Vec<_> = delivered.into_iter().map(|event| event.traceparent).collect();
    same("the traces are", &traces, &vec![Some(trace()?), Some(trace()?), None])?;
    let trail = world.repository().history(ready.id()).await?;
    let kept = trail.iter().any(|line| line.entry.attribution.traceparent.is_some());
    require(!kept, "the audit keeps a trace")
}

async fn a_purged_event_passes_on_no_trace(world: &World) -> Outcome {
    let pending = declared_in_a_trace(world).await?;
    world.deliver_all().await?;
    world.advance(LONG).await?;
    world.outbox().purge_events(HOUR, rows(10)).await?;
    made_ready(world, &pending).await?;
    let delivered = world.deliver_all().await?;
    let traces: Vec<_> = delivered.into_iter().map(|event| event.traceparent).collect();
    same("the traces are", &traces, &vec![None])
}
