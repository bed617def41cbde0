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

/// A resource with three events; the first is dead-lettered.
async fn dead_letter(world: &World) -> Checked<ClaimedEvent> {
    world.stored(&resource().deregistering()).await?;
    world.dead_letter("HTTP 410").await
}

async fn a_dead_letter_blocks_only_its_own_resource(world: &World) -> Outcome {
    let event = dead_letter(world).await?;
    world.stored(&numbered(2).ready()).await?;
    world.advance(LONG).await?;
    let delivered = world.deliver_all().await?;
    let others = delivered.iter().all(|delivered| delivered.resource != event.resource);
    require(others, "an event behind a dead letter was delivered")?;
    same("the delivered events of the other resource", &delivered.len(), &2)?;
    same("there are", &world.backlog().await?, &(3, 1))
}

async fn dead_letters_are_listed_by_scope(world: &World) -> Outcome {
    let asked = async |of, limit| world.outbox().dead_letter_events(of, limit).await;
    same("before, there is", &asked(EventsOf::All, PageSize::MAX).await?, &vec![])?;
    let mut expected_letters = Vec::new();
    for (number, reason) in [(1, "HTTP 410"), (2, "HTTP 500"), (3, "HTTP 410")] {
        world.stored(&numbered(number).in_project(project(number.min(2)))).await?;
        let event = world.dead_letter(reason).await?;
        let aside = DeadLetter::new(event.claim.event_id, event.event_type, reason);
        expected_letters.push(ResourceDeadLetter::new(event.resource, aside));
    }
    for (of, limit, expected) in [
        (EventsOf::All, PageSize::MAX, &expected_letters[..]),
        (EventsOf::All, rows(1), &expected_letters[..1]),
        (EventsOf::Resource(id(2)), PageSize::MAX, &expected_letters[1..2]),
        (EventsOf::Project(project(1)), PageSize::MAX, &expected_letters[..1]),
        (EventsOf::Project(project(2)), PageSize::MAX, &expected_letters[1..]),
        (EventsOf::Project(project(2)), rows(1), &expected_letters[1..2]),
        (EventsOf::Project(project(3)), PageSize::MAX, &[]),
    ] {
        let found = asked(of, limit).await?;
        same(&format!("of {of:?} there are"), &found, &expected.to_vec())?;
    }
    world.resume(id(2), Redrive::Retry).await?;
    let taken_up = asked(EventsOf::Resource(id(2)), PageSize::MAX).await?;
    same("the dead letters after the redrive", &taken_up, &vec![])
}

async fn a_redriven_event_starts_with_zero_attempts(world: &World) -> Outcome {
    let event = dead_letter(world).await?;
    world.claim_is_lost(&event).await?;
    let taken_up = audited(world, &event, Redrive::Retry, AuditAction::EventsRedriven).await?;
    let expected = DeadLetter::new(event.claim.event_id, EventType::Requested, "HTTP 410");
    same("the redriven event", &taken_up, &Some(expected))?;
    world.claim_is_lost(&event).await?;
    let again = world.claim_event("relay").await?;
    require(again.claim != event.claim, "two claims on an event are equal")?;
    world.claim_is_lost(&event).await?;
    same("the delivered event", &again.claim.event_id, &event.claim.event_id)?;
    same("the attempts are", &again.attempts, &0)?;
    same("the bytes are", &again.payload, &event.payload)?;
    world.acknowledge(&again).await?;
    same("the later events", &world.deliver_all().await?.len(), &2)
}

async fn a_skipped_event_is_followed_by_the_next(world: &World) -> Outcome {
    let event = dead_letter(world).await?;
    let taken_up = audited(world, &event, Redrive::Skip, AuditAction::EventsSkipped).await?;
    require(taken_up.is_some(), "there was nothing to take up")?;
    same("the later events", &sequences(&world.deliver_all().await?), &vec![2, 3])?;
    same("there are", &world.backlog().await?, &(0, 0))
}

/// Redrives the events of a resource, with one audit line.
async fn audited(
    world: &World,
    event: &ClaimedEvent,
    how: Redrive,
    action: AuditAction,
) -> Checked<Option<DeadLetter>> {
    let before = world.audit_trail().await?.len();
    let taken_up = world.resume(event.resource, how).await?;
    let lines = world.audit_trail().await?.split_off(before);
    let said: Vec<_> = lines
        .iter()
        .map(|line| (line.entry.resource, line.entry.project, line.entry.action))
        .collect();
    same("the audited actions", &said, &vec![(Some(event.resource), Some(project(1)), action)])?;
    Ok(taken_up)
}

async fn a_redrive_without_a_dead_letter_changes_nothing(world: &World) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    world.claim_event("relay").await?;
    let before = world.facts(stored.id()).await?;
    for how in [Redrive::Retry, Redrive::Skip] {
        for resource in [stored.id(), id(2)] {
            let taken_up = world.resume(resource, how).await?;
            same("the redriven event", &taken_up, &None)?;
        }
    }
    world.require_untouched(stored.id(), &before).await?;
    same("the claim is kept, another gets", &world.claim_events("b", 10).await?, &vec![])
}
