//! Promises about patience: a call that its caller drops half way happened wholly or not at all, and asking
//! again leads to where one call would have led.
//!
//! A call that was dropped may still be under way in the store. The second one waits for it there, so that
//! what both left behind can be counted afterwards; it has to be what one leaves behind.

use super::prelude::*;

pub(super) fn repository_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    dropping_suite_of![
        a_creation_that_was_dropped_is_whole_or_nothing,
        a_change_that_was_dropped_is_whole_or_nothing,
        a_purge_that_was_dropped_is_audited_once,
    ]
}

pub(super) fn schedule_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    dropping_suite_of![
        a_claim_that_was_dropped_ends_by_itself,
        a_release_that_was_dropped_counts_once,
        a_pause_that_was_dropped_is_audited_once,
    ]
}

pub(super) fn outbox_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    dropping_suite_of![
        an_acknowledgement_that_was_dropped_is_taken_once,
        a_delay_that_was_dropped_counts_once,
        a_retry_that_was_dropped_is_audited_once,
    ]
}

/// So often a claim asks again before it gives up: a store may pass over what a dropped call still holds.
const ROUNDS: u32 = 1_000;

async fn a_creation_that_was_dropped_is_whole_or_nothing(
    world: &dyn StoreUnderTest,
    polls: u32,
) -> Dropped {
    let builder = numbered(polls.into()).requested_as(&format!("order-{polls}"));
    world.know(&builder.declaration()).await?;
    let admitted = builder.admitted();
    let answer = dropped_after(polls, world.repository().create(&admitted)).await;
    match world.repository().create(&admitted).await? {
        Created::Stored => require(answer.is_none(), "what was stored is stored again")?,
        Created::Replayed(first) => same_resource(&first, &builder.build())?,
        Created::Conflict => return Err(Violation::new("an equal declaration conflicts")),
    }
    same_resource(&world.get(builder.id()).await?, &builder.build())?;
    let actions = world.actions(builder.id()).await?;
    same("the audit says", &actions, &vec![AuditAction::Declared])?;
    same("there are events", &world.deliver_all().await?.len(), &1)?;
    let entry = world.entry(builder.id()).await?;
    require(is_due(&entry) && entry.epoch == LeaseEpoch::ZERO, "it is not due and untouched")?;
    Ok(answer.is_some())
}

async fn a_change_that_was_dropped_is_whole_or_nothing(
    world: &dyn StoreUnderTest,
    polls: u32,
) -> Dropped {
    let (by, mut answered) = (attribution(), true);
    for (first, phase, kind, action) in [
        (0, Phase::Enrolling, WriteKind::Phase, AuditAction::PhaseChanged),
        (1_000, Phase::Ready, WriteKind::DeletionIntent, AuditAction::DeletionRequested),
    ] {
        let number = first + u128::from(polls);
        let stored = world.stored(&numbered(number).in_phase(phase).with_token()).await?;
        world.deliver_all().await?;
        world.pass(&stored, &asked_to_wait(HOUR)).await?;
        let mut expected = world.actions(stored.id()).await?;
        expected.push(action);
        let leaves = kind == WriteKind::DeletionIntent;
        let change =
            if leaves { deletion(&stored, number)? } else { to(&stored, Phase::Ready, number)? };
        let write = Write::by_caller(&change, &by);
        let answer = dropped_after(polls, world.repository().write(kind, &write)).await;
        match world.repository().write(kind, &write).await? {
            Written::Committed => require(answer.is_none(), "a version was written twice")?,
            Written::Stale => {}
            Written::LeaseLost => return Err(Violation::new("nobody had a lease to lose")),
        }
        same_resource(&world.get(stored.id()).await?, change.resource())?;
        same("the audit says", &world.actions(stored.id()).await?, &expected)?;
        same("there are events", &world.deliver_all().await?.len(), &1)?;
        require(is_due(&world.entry(stored.id()).await?), "what changed is not due")?;
        answered &= answer.is_some();
    }
    Ok(answered)
}

async fn a_purge_that_was_dropped_is_audited_once(
    world: &dyn StoreUnderTest,
    polls: u32,
) -> Dropped {
    let stored = world.stored(&numbered(polls.into()).deleted()).await?;
    world.deliver_all().await?;
    world.advance(LONG).await?;
    let mut expected = world.actions(stored.id()).await?;
    expected.push(AuditAction::Purged);
    let answer = dropped_after(polls, world.repository().purge_deleted(&AFTER_AN_HOUR)).await;
    let again = purged_by_now(world, stored.id()).await?;
    require(answer.is_none() || again.is_empty(), "a resource was purged twice")?;
    same("the audit says", &world.actions(stored.id()).await?, &expected)?;
    Ok(answer.is_some())
}

/// What a purge finds that comes after another. It may pass over what a dropped one still holds, so it asks until
/// the resource is gone.
async fn purged_by_now(
    world: &dyn StoreUnderTest,
    id: ProvisionedResourceId,
) -> Result<Vec<ProvisionedResourceId>, Violation> {
    let mut purged = Vec::new();
    for _ in 0..ROUNDS {
        purged.extend(world.repository().purge_deleted(&AFTER_AN_HOUR).await?);
        if world.repository().get_by_id(id).await?.is_none() {
            return Ok(purged);
        }
    }
    Err(Violation::new("after a dropped purge a resource is never purged"))
}

async fn a_claim_that_was_dropped_ends_by_itself(
    world: &dyn StoreUnderTest,
    polls: u32,
) -> Dropped {
    let stored = world.stored(&numbered(polls.into())).await?;
    let request = ClaimRequest::new(worker("dropped"), ClaimTarget::One(stored.id()), HOUR);
    let answer = dropped_after(polls, world.schedule().claim(&request)).await;
    let (next, entry) = whoever_comes_next(world, stored.id()).await?;
    let first = LeaseEpoch::ZERO.next();
    if let Some(lease) = &next {
        require(answer.is_none(), "a second worker got what is held")?;
        same("the dropped claim did nothing, the epoch is", &lease.epoch, &first)?;
    } else {
        same("the dropped claim happened, the epoch is", &entry.epoch, &first)?;
        let holder = entry.lease.map(|(worker, _)| worker);
        same("it is held by", &holder, &Some(worker("dropped")))?;
    }
    world.advance(HOUR * 2).await?;
    let after = world.hold("successor", stored.id()).await?;
    same("the next epoch is", &after.epoch, &first.next())?;
    require(after.takeover, "a lease that nobody gave back is no takeover")?;
    Ok(answer.is_some())
}

/// What the next worker gets, and what the schedule then says: it has the lease, or somebody else does.
async fn whoever_comes_next(
    world: &dyn StoreUnderTest,
    id: ProvisionedResourceId,
) -> Result<(Option<Lease>, ScheduleEntry), Violation> {
    for _ in 0..ROUNDS {
        let next = world.claim_one("next", id).await?;
        let entry = world.entry(id).await?;
        if entry.lease.is_some() {
            return Ok((next, entry));
        }
    }
    Err(Violation::new("after a dropped claim nobody gets a lease, and nobody has it"))
}

async fn a_release_that_was_dropped_counts_once(world: &dyn StoreUnderTest, polls: u32) -> Dropped {
    let stored = world.stored(&numbered(polls.into())).await?;
    let lease = world.hold("dropped", stored.id()).await?;
    let longest = world.backoff().longest;
    let outcome = asked_to_wait(longest);
    let release = || world.schedule().release(&lease, stored.version(), &outcome);
    let answer = dropped_after(polls, release()).await;
    let twice = release().await? == Released::Done && answer.is_some();
    require(!twice, "a lease was given back twice")?;
    let entry = world.entry(stored.id()).await?;
    same("it is held by", &entry.lease, &None)?;
    same("failed attempts are", &entry.attempts, &1)?;
    same("its epoch is", &entry.epoch, &lease.epoch)?;
    due_in(&entry, longest)?;
    Ok(answer.is_some())
}

async fn a_pause_that_was_dropped_is_audited_once(
    world: &dyn StoreUnderTest,
    polls: u32,
) -> Dropped {
    let by = attribution();
    let stored = world.stored(&numbered(polls.into())).await?;
    let pause = || world.schedule().set_paused(stored.id(), true, &by);
    let answer = dropped_after(polls, pause()).await;
    require(pause().await?, "the resource is said not to be there")?;
    require(world.entry(stored.id()).await?.paused, "what was paused is not")?;
    let expected = vec![AuditAction::Declared, AuditAction::Paused];
    same("the audit says", &world.actions(stored.id()).await?, &expected)?;
    Ok(answer.is_some())
}

async fn an_acknowledgement_that_was_dropped_is_taken_once(
    world: &dyn StoreUnderTest,
    polls: u32,
) -> Dropped {
    world.stored(&numbered(polls.into()).ready()).await?;
    let event = world.claim_event("relay").await?;
    let acknowledge = || world.outbox().acknowledge_event(&event.claim);
    let answer = dropped_after(polls, acknowledge()).await;
    let twice = acknowledge().await? == Acknowledged::Done && answer.is_some();
    require(!twice, "an event was acknowledged twice")?;
    same("there are left", &world.backlog().await?, &(1, 0))?;
    let next = world.claim_event("relay").await?;
    same("the next event is", &next.sequence, &(event.sequence + 1))?;
    world.acknowledge(&next).await?;
    Ok(answer.is_some())
}

async fn a_delay_that_was_dropped_counts_once(world: &dyn StoreUnderTest, polls: u32) -> Dropped {
    world.stored(&numbered(polls.into())).await?;
    let event = world.claim_event("relay").await?;
    let delay = || world.outbox().delay_event(&event.claim, HOUR, DeliveryFailure::Rejected);
    let answer = dropped_after(polls, delay()).await;
    let twice = delay().await? == Acknowledged::Done && answer.is_some();
    require(!twice, "an event was delayed twice")?;
    world.advance(HOUR * 2).await?;
    let next = world.claim_event("relay").await?;
    same("the attempts are", &next.attempts, &1)?;
    world.acknowledge(&next).await?;
    Ok(answer.is_some())
}

async fn a_retry_that_was_dropped_is_audited_once(
    world: &dyn StoreUnderTest,
    polls: u32,
) -> Dropped {
    let by = attribution();
    let stored = world.stored(&numbered(polls.into())).await?;
    let event = world.set_aside("HTTP 410").await?;
    let retry = || world.outbox().resume_events(stored.id(), Resume::Retry, &by);
    let answer = dropped_after(polls, retry()).await;
    let again = retry().await?;
    require(answer.is_none() || again.is_none(), "an event was taken up twice")?;
    let expected = vec![AuditAction::Declared, AuditAction::EventsResumed];
    same("the audit says", &world.actions(stored.id()).await?, &expected)?;
    let next = world.claim_event("relay").await?;
    same("it delivers", &next.claim.event_id, &event.claim.event_id)?;
    same("the attempts are", &next.attempts, &0)?;
    world.acknowledge(&next).await?;
    Ok(answer.is_some())
}
