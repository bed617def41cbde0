//! Promises of the five writes: what they commit, all of it together.

use broker_domain::FailureReason;

use super::guard::all_but_the_last;
use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_change_of_phase_commits_row_event_and_audit_line,
        every_phase_reads_back_as_it_was_written,
        what_is_recorded_is_stored_and_audited_and_nothing_else,
        a_change_of_phase_is_due_at_once_and_forgets_failures,
        giving_up_is_audited_with_what_was_written,
        a_failure_is_audited_with_its_step,
        the_time_of_the_last_change_is_the_stores,
        a_resource_may_become_ready_twice,
    ]
}

async fn a_change_of_phase_commits_row_event_and_audit_line(world: &World) -> Outcome {
    let stored = world.stored(&resource().enrolling().with_token()).await?;
    world.deliver_all().await?;
    let lease = world.hold("a", stored.id()).await?;
    let change = to(&stored, Phase::Ready, 1)?;
    world.commit_as(&lease, &change).await?;
    same_resource(&world.get(stored.id()).await?, change.resource())?;

    let event = world.claim_event("relay").await?;
    same("the event's bytes are", &Some(event.payload), &change.event().map(wire::encode))?;
    let line = world.last_line(stored.id()).await?;
    same("the audit says", &line.entry.action, &AuditAction::PhaseChanged)?;
    same("the line tells of epoch", &line.epoch, &Some(lease.epoch))?;
    same_line(&line, change.resource(), (Some(Phase::Enrolling), Some(Phase::Ready)))
}

async fn every_phase_reads_back_as_it_was_written(world: &World) -> Outcome {
    let of_phase = |(number, phase)| numbered(number).with_token().with_substrate().in_phase(phase);
    let builders = (1..).zip(Phase::ALL).map(of_phase).chain([numbered(9).given_up()]);
    for builder in builders {
        same_resource(&world.stored(&builder).await?, &builder.build())?;
    }
    Ok(())
}

/// A recording has no event, and leaves the schedule as it was.
async fn what_is_recorded_is_stored_and_audited_and_nothing_else(world: &World) -> Outcome {
    for (kind, builder, action) in [
        (WriteKind::Token, numbered(1).with_token(), AuditAction::TokenRecorded),
        (
            WriteKind::Closed,
            numbered(2).deregistering().with_tokens_closed(),
            AuditAction::TokensClosedRecorded,
        ),
        (WriteKind::Substrate, numbered(3).with_substrate(), AuditAction::SubstrateRecorded),
    ] {
        let change = all_but_the_last(world, &builder).await?;
        world.deliver_all().await?;
        world.pass(&world.get(builder.id()).await?, &asked_to_wait(HOUR)).await?;
        let id = change.resource().id();
        world.commit(kind, &change).await?;
        same_resource(&world.get(id).await?, change.resource())?;
        let line = world.last_line(id).await?;
        same("the audit says", &line.entry.action, &action)?;
        same("the line tells of version", &line.version, &Some(change.resource().version()))?;
        same("there are events", &world.backlog().await?.0, &0)?;
        let entry = world.entry(id).await?;
        require(!is_due(&entry), "recording set the resource due")?;
        same("failed attempts are", &entry.attempts, &1)?;
    }
    Ok(())
}

/// A deletion request is such a change, and carries its event.
async fn a_change_of_phase_is_due_at_once_and_forgets_failures(world: &World) -> Outcome {
    let [pending, ready] = &world.store_all([numbered(1), numbered(2).ready()]).await?[..] else {
        return Err(Violation::new("two were stored"));
    };
    world.deliver_all().await?;
    for (kind, action, change) in [
        (WriteKind::Phase, AuditAction::PhaseChanged, to(pending, Phase::Provisioning, 1)?),
        (WriteKind::DeletionIntent, AuditAction::DeletionRequested, deletion(ready, 2)?),
    ] {
        let id = change.resource().id();
        world.pass(&world.get(id).await?, &asked_to_wait(HOUR)).await?;
        require(!is_due(&world.entry(id).await?), "it is not put off")?;
        world.commit(kind, &change).await?;
        same_resource(&world.get(id).await?, change.resource())?;
        same("the audit says", &world.last_line(id).await?.entry.action, &action)?;
        let entry = world.entry(id).await?;
        require(is_due(&entry), &format!("{kind:?} did not set the resource due"))?;
        same("failed attempts are", &entry.attempts, &0)?;
        same("the last error is", &entry.last_error, &None)?;
        let events = world.deliver_all().await?;
        let events: Vec<_> = events.into_iter().map(|event| event.payload).collect();
        same(
            "the events' bytes are",
            &events,
            &change.event().map(wire::encode).into_iter().collect(),
        )?;
    }
    Ok(())
}

async fn giving_up_is_audited_with_what_was_written(world: &World) -> Outcome {
    let stored = world.stored(&resource().deregistering().with_tokens_closed()).await?;
    let change = stored.abandon(fresh_stamp(1))?;
    let by = attribution();
    let write = Write::by_caller(&change, &by).with_event_data("the cloud account is gone");
    let written = world.repository().write(WriteKind::Phase, &write).await?;
    same("it is answered", &written, &Written::Committed)?;
    let line = world.last_line(stored.id()).await?;
    same("the audit says", &line.entry.action, &AuditAction::Abandoned)?;
    let text = line.entry.event_data.as_deref();
    same("the audit keeps the words", &text, &Some("the cloud account is gone"))?;
    require(world.get(stored.id()).await?.abandoned(), "the row does not say that it was given up")
}

async fn a_failure_is_audited_with_its_step(world: &World) -> Outcome {
    let stored = world.stored(&resource().provisioning()).await?;
    let failed = stored.fail(FailureReason::from_message("quota exceeded"), fresh_stamp(1))?;
    let failed = failed.ok_or(Violation::new("it has failed"))?;
    let rollback = deletion(failed.resource(), 2)?;
    for (kind, change) in [(WriteKind::Phase, failed), (WriteKind::DeletionIntent, rollback)] {
        world.commit(kind, &change).await?;
        let step = world.last_line(stored.id()).await?.entry.failed_step;
        same("the failed step is", &step, &Some(Phase::Provisioning))?;
    }
    Ok(())
}

async fn the_time_of_the_last_change_is_the_stores(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let entry = world.entry(stored.id()).await?;
    require(stored.updated_at() <= entry.now, "a change lies ahead of the store's clock")?;
    world.advance(HOUR).await?;
    let stored = world.get(stored.id()).await?;
    world.commit(WriteKind::Phase, &to(&stored, Phase::Provisioning, 1)?).await?;
    let changed = world.get(stored.id()).await?;
    let moved = changed.updated_at() >= stored.updated_at() + HOUR / 2;
    require(moved, "the time of a change is not when it was stored")?;
    let entry = world.entry(stored.id()).await?;
    require(changed.updated_at() <= entry.now, "a change lies ahead of the store's clock")
}

async fn a_resource_may_become_ready_twice(world: &World) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    let lost = to(&stored, Phase::Pending, 1)?;
    world.commit(WriteKind::Phase, &lost).await?;
    let again = to(lost.resource(), Phase::Ready, 2)?;
    world.commit(WriteKind::Phase, &again).await?;
    same("events are numbered", &sequences(&world.deliver_all().await?), &vec![1, 2, 3])?;
    world.pass(again.resource(), &went_well()).await
}
