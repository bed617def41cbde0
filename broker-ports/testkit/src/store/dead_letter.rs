//! Cases for `dead_letter_event` and `redrive_events`.

use broker_ports::{DeadLetter, ResourceDeadLetter};

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_dead_letter_blocks_only_its_own_resource,
        a_redriven_event_starts_with_zero_attempts,
        a_skipped_event_is_followed_by_the_next,
        a_redrive_without_a_dead_letter_changes_nothing,
        dead_letters_are_listed_by_scope,
    ]
}

/// Stores a resource with three events and dead-letters the first.
async fn store_dead_letter(world: &World) -> Checked<ClaimedEvent> {
    world.store(&resource().deregistering()).await?;
    world.dead_letter("HTTP 410").await
}

async fn a_dead_letter_blocks_only_its_own_resource(world: &World) -> Outcome {
    let event = store_dead_letter(world).await?;
    world.store(&nth_resource(2).ready()).await?;
    world.advance(LONG).await?;
    let delivered = world.deliver_all().await?;
    let only_others = delivered.iter().all(|delivered| delivered.resource != event.resource);
    require(only_others, "an event behind a dead letter was delivered")?;
    equal("the delivered events of the other resource", &delivered.len(), &2)?;
    equal("the backlog", &world.backlog().await?, &(3, 1))
}

async fn dead_letters_are_listed_by_scope(world: &World) -> Outcome {
    let list = async |scope, limit| world.outbox().dead_letter_events(scope, limit).await;
    equal("the dead letters at first", &list(EventsOf::All, PageSize::MAX).await?, &vec![])?;
    let mut expected_letters = Vec::new();
    for (number, reason) in [(1, "HTTP 410"), (2, "HTTP 500"), (3, "HTTP 410")] {
        world.store(&nth_resource(number).in_project(project(number.min(2)))).await?;
        let event = world.dead_letter(reason).await?;
        let dead_letter = DeadLetter::new(event.claim.event_id, event.event_type, reason);
        expected_letters.push(ResourceDeadLetter::new(event.resource, dead_letter));
    }
    for (scope, limit, expected) in [
        (EventsOf::All, PageSize::MAX, &expected_letters[..]),
        (EventsOf::All, rows(1), &expected_letters[..1]),
        (EventsOf::Resource(id(2)), PageSize::MAX, &expected_letters[1..2]),
        (EventsOf::Project(project(1)), PageSize::MAX, &expected_letters[..1]),
        (EventsOf::Project(project(2)), PageSize::MAX, &expected_letters[1..]),
        (EventsOf::Project(project(2)), rows(1), &expected_letters[1..2]),
        (EventsOf::Project(project(3)), PageSize::MAX, &[]),
    ] {
        let found = list(scope, limit).await?;
        equal(&format!("the dead letters of {scope:?}"), &found, &expected.to_vec())?;
    }
    world.redrive(id(2), Redrive::Retry).await?;
    let redriven = list(EventsOf::Resource(id(2)), PageSize::MAX).await?;
    equal("the dead letters after the redrive", &redriven, &vec![])
}

async fn a_redriven_event_starts_with_zero_attempts(world: &World) -> Outcome {
    let event = store_dead_letter(world).await?;
    world.require_claim_lost(&event).await?;
    let redriven =
        redrive_audited(world, &event, Redrive::Retry, AuditAction::EventsRedriven).await?;
    let expected = DeadLetter::new(event.claim.event_id, EventType::Requested, "HTTP 410");
    equal("the redriven event", &redriven, &Some(expected))?;
    world.require_claim_lost(&event).await?;
    let reclaimed = world.claim_event("relay").await?;
    require(reclaimed.claim != event.claim, "two claims on an event are equal")?;
    world.require_claim_lost(&event).await?;
    equal("the delivered event", &reclaimed.claim.event_id, &event.claim.event_id)?;
    equal("the attempts", &reclaimed.attempts, &0)?;
    equal("the bytes", &reclaimed.payload, &event.payload)?;
    world.acknowledge(&reclaimed).await?;
    equal("the later events", &world.deliver_all().await?.len(), &2)
}

async fn a_skipped_event_is_followed_by_the_next(world: &World) -> Outcome {
    let event = store_dead_letter(world).await?;
    let redriven =
        redrive_audited(world, &event, Redrive::Skip, AuditAction::EventsSkipped).await?;
    require(redriven.is_some(), "no dead letter was skipped")?;
    equal("the later events", &sequences(&world.deliver_all().await?), &vec![2, 3])?;
    equal("the backlog", &world.backlog().await?, &(0, 0))
}

/// Redrives the events of a resource and checks that one audit line is written.
async fn redrive_audited(
    world: &World,
    event: &ClaimedEvent,
    how: Redrive,
    action: AuditAction,
) -> Checked<Option<DeadLetter>> {
    let before = world.audit_trail().await?.len();
    let redriven = world.redrive(event.resource, how).await?;
    let lines = world.audit_trail().await?.split_off(before);
    let actions: Vec<_> = lines
        .iter()
        .map(|line| (line.entry.resource, line.entry.project, line.entry.action))
        .collect();
    equal(
        "the audited actions",
        &actions,
        &vec![(Some(event.resource), Some(project(1)), action)],
    )?;
    Ok(redriven)
}

async fn a_redrive_without_a_dead_letter_changes_nothing(world: &World) -> Outcome {
    let stored = world.store(&resource().ready()).await?;
    world.claim_event("relay").await?;
    let before = world.state_of(stored.id()).await?;
    for how in [Redrive::Retry, Redrive::Skip] {
        for resource in [stored.id(), id(2)] {
            let redriven = world.redrive(resource, how).await?;
            equal("the redriven event", &redriven, &None)?;
        }
    }
    world.require_untouched(stored.id(), &before).await?;
    equal("the events of a second claim", &world.claim_events("b", 10).await?, &vec![])
}
