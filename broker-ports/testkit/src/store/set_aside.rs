//! Promises of `set_aside_event` and `resume_events`.

use broker_ports::{SetAside, SetAsideOf};

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        what_was_set_aside_is_not_claimed_and_holds_up_its_resource_only,
        an_event_is_set_aside_once,
        a_retry_delivers_again_with_fresh_attempts,
        a_claim_from_before_a_retry_is_lost,
        a_skip_goes_on_with_the_next,
        taking_up_is_audited,
        taking_up_nothing_changes_nothing,
        what_was_set_aside_can_be_asked_for,
        what_was_set_aside_can_be_asked_for_by_project,
    ]
}

/// A resource with three events, of which the first was set aside.
async fn set_aside(world: &dyn StoreUnderTest) -> Result<ClaimedEvent, Violation> {
    world.stored(&resource().deregistering()).await?;
    let event = world.claim_event("relay").await?;
    let answer = world.outbox().set_aside_event(&event.claim, "HTTP 410").await?;
    same("setting aside is answered", &answer, &Acknowledged::Done)?;
    Ok(event)
}

async fn what_was_set_aside_is_not_claimed_and_holds_up_its_resource_only(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let event = set_aside(world).await?;
    world.stored(&resource().numbered(2).ready()).await?;
    world.advance(LONG).await?;
    let delivered = world.deliver_all().await?;
    let others = delivered.iter().all(|delivered| delivered.resource != event.resource);
    require(others, "an event behind one that was set aside was delivered")?;
    same("so many of the other resource were delivered", &delivered.len(), &2)?;
    let backlog = world.outbox().backlog().await?;
    same("there are", &(backlog.depth, backlog.set_aside), &(3, 1))
}

async fn what_was_set_aside_can_be_asked_for(world: &dyn StoreUnderTest) -> Outcome {
    let nothing = world.outbox().set_aside_events(EventsOf::All, PageSize::MAX).await?;
    same("before, there is", &nothing, &Vec::new())?;
    let event = set_aside(world).await?;
    world.stored(&resource().numbered(2).deregistering()).await?;
    let other = world.claim_event("relay").await?;
    let answer = world.outbox().set_aside_event(&other.claim, "HTTP 500").await?;
    same("setting aside is answered", &answer, &Acknowledged::Done)?;
    let told = |event: &ClaimedEvent, reason: &str| {
        let aside = SetAside::new(event.claim.event_id, event.event_type, reason);
        SetAsideOf::new(event.resource, aside)
    };
    let mut both = vec![told(&event, "HTTP 410"), told(&other, "HTTP 500")];
    both.sort_by_key(|aside| aside.resource);
    let all = world.outbox().set_aside_events(EventsOf::All, PageSize::MAX).await?;
    same("of all there are", &all, &both)?;
    let one = world.outbox().set_aside_events(EventsOf::All, PageSize::new(1)?).await?;
    same("with a limit there is", &one, &both[..1].to_vec())?;
    let own =
        world.outbox().set_aside_events(EventsOf::Resource(other.resource), PageSize::MAX).await?;
    same("of one there is", &own, &vec![told(&other, "HTTP 500")])?;
    world.outbox().resume_events(other.resource, Resume::Retry, &attribution()).await?;
    let taken_up =
        world.outbox().set_aside_events(EventsOf::Resource(other.resource), PageSize::MAX).await?;
    same("once it was taken up there is", &taken_up, &Vec::new())
}

async fn what_was_set_aside_can_be_asked_for_by_project(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=3 {
        let builder = resource().numbered(number).in_project(project(number.min(2)));
        world.stored(&builder).await?;
        let event = world.claim_event("relay").await?;
        let answer = world.outbox().set_aside_event(&event.claim, "HTTP 410").await?;
        same("setting aside is answered", &answer, &Acknowledged::Done)?;
    }
    for (number, expected) in [(1, vec![id(1)]), (2, vec![id(2), id(3)]), (3, Vec::new())] {
        let of = EventsOf::Project(project(number));
        let told = world.outbox().set_aside_events(of, PageSize::MAX).await?;
        let resources: Vec<_> = told.into_iter().map(|aside| aside.resource).collect();
        same("of the Project there are", &resources, &expected)?;
    }
    let two = EventsOf::Project(project(2));
    let told = world.outbox().set_aside_events(two, PageSize::new(1)?).await?;
    let resources: Vec<_> = told.into_iter().map(|aside| aside.resource).collect();
    same("with a limit there is", &resources, &vec![id(2)])
}

async fn an_event_is_set_aside_once(world: &dyn StoreUnderTest) -> Outcome {
    let event = set_aside(world).await?;
    require_lost(world, &event).await?;
    let taken_up =
        world.outbox().resume_events(event.resource, Resume::Retry, &attribution()).await?;
    same("the reason is", &taken_up.map(|taken| taken.reason), &Some("HTTP 410".to_owned()))
}

async fn a_retry_delivers_again_with_fresh_attempts(world: &dyn StoreUnderTest) -> Outcome {
    let event = set_aside(world).await?;
    let taken_up =
        world.outbox().resume_events(event.resource, Resume::Retry, &attribution()).await?;
    let expected = SetAside::new(event.claim.event_id, EventType::Requested, "HTTP 410");
    same("it took up", &taken_up, &Some(expected))?;
    let again = world.claim_event("relay").await?;
    same("it delivers", &again.claim.event_id, &event.claim.event_id)?;
    same("the attempts are", &again.attempts, &0)?;
    same("the bytes are", &again.payload, &event.payload)?;
    world.acknowledge(&again).await?;
    same("then come", &world.deliver_all().await?.len(), &2)
}

async fn a_claim_from_before_a_retry_is_lost(world: &dyn StoreUnderTest) -> Outcome {
    let event = set_aside(world).await?;
    world.outbox().resume_events(event.resource, Resume::Retry, &attribution()).await?;
    require_lost(world, &event).await?;
    let again = world.claim_event("relay").await?;
    require(again.claim != event.claim, "two claims on an event cannot be told apart")?;
    require_lost(world, &event).await?;
    world.acknowledge(&again).await
}

/// Whatever is done under its claim is answered that the claim is lost, and changes nothing.
async fn require_lost(world: &dyn StoreUnderTest, event: &ClaimedEvent) -> Outcome {
    let before = world.facts(event.resource).await?;
    for answer in [
        world.outbox().acknowledge_event(&event.claim).await?,
        world.outbox().delay_event(&event.claim, HOUR, DeliveryFailure::Rejected).await?,
        world.outbox().set_aside_event(&event.claim, "again").await?,
    ] {
        same("a claim from before is answered", &answer, &Acknowledged::ClaimLost)?;
    }
    world.require_untouched(event.resource, &before).await
}

async fn a_skip_goes_on_with_the_next(world: &dyn StoreUnderTest) -> Outcome {
    let event = set_aside(world).await?;
    let taken_up =
        world.outbox().resume_events(event.resource, Resume::Skip, &attribution()).await?;
    require(taken_up.is_some(), "there was nothing to take up")?;
    let sequences: Vec<_> =
        world.deliver_all().await?.into_iter().map(|event| event.sequence).collect();
    same("then come", &sequences, &vec![2, 3])?;
    let backlog = world.outbox().backlog().await?;
    same("there are", &(backlog.depth, backlog.set_aside), &(0, 0))
}

async fn taking_up_is_audited(world: &dyn StoreUnderTest) -> Outcome {
    for (number, how, action) in [
        (1, Resume::Retry, AuditAction::EventsResumed),
        (2, Resume::Skip, AuditAction::EventsSkipped),
    ] {
        let stored = world.stored(&resource().numbered(number)).await?;
        let event = world.claim_event("relay").await?;
        let _ = world.outbox().set_aside_event(&event.claim, "HTTP 410").await?;
        let before = world.audit_trail().await?.len();
        world.outbox().resume_events(stored.id(), how, &attribution()).await?;
        let lines = world.audit_trail().await?.split_off(before);
        let said: Vec<_> = lines
            .iter()
            .map(|line| (line.entry.resource, line.entry.project, line.entry.action))
            .collect();
        let expected = vec![(Some(stored.id()), Some(stored.project_id()), action)];
        same("the audit says", &said, &expected)?;
        world.deliver_all().await?;
    }
    Ok(())
}

async fn taking_up_nothing_changes_nothing(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    world.claim_event("relay").await?;
    let before = world.facts(stored.id()).await?;
    for how in [Resume::Retry, Resume::Skip] {
        for resource in [stored.id(), id(2)] {
            let taken_up = world.outbox().resume_events(resource, how, &attribution()).await?;
            same("it took up", &taken_up, &None)?;
        }
    }
    world.require_untouched(stored.id(), &before).await?;
    same("the claim is kept, another gets", &world.claim_events("b", 10).await?, &vec![])
}
