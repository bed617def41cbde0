//! Cases for committed writes: each commits all its parts together.

use broker_domain::FailureReason;

use super::guard::store_all_but_last;
use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_phase_change_commits_row_event_and_audit_line,
        every_phase_reads_back_unchanged,
        a_record_write_changes_only_row_and_audit,
        a_phase_change_is_due_at_once_and_clears_failures,
        an_abandonment_is_audited_with_its_reason,
        a_failure_is_audited_with_its_step,
        the_time_of_a_change_is_the_stores,
        a_resource_may_become_ready_twice,
    ]
}

async fn a_phase_change_commits_row_event_and_audit_line(world: &World) -> Outcome {
    let stored = world.stored(&resource().enrolling().with_token()).await?;
    world.deliver_all().await?;
    let lease = world.hold("a", stored.id()).await?;
    let change = to(&stored, Phase::Ready, 1)?;
    world.commit_as(&lease, &change).await?;
    same_resource(&world.get(stored.id()).await?, change.resource())?;

    let event = world.claim_event("relay").await?;
    same("the event's bytes are", &Some(event.payload), &change.event().map(wire::encode))?;
    let line = world.last_line(stored.id()).await?;
    same("the audited actions", &line.entry.action, &AuditAction::PhaseChanged)?;
    same("the line tells of epoch", &line.epoch, &Some(lease.epoch))?;
    same_line(&line, change.resource(), (Some(Phase::Enrolling), Some(Phase::Ready)))
}

async fn every_phase_reads_back_unchanged(world: &World) -> Outcome {
    let of_phase = |(number, phase)| numbered(number).with_token().with_substrate().in_phase(phase);
    let builders = (1..).zip(Phase::ALL).map(of_phase).chain([numbered(9).given_up()]);
    for builder in builders {
        same_resource(&world.stored(&builder).await?, &builder.build())?;
    }
    Ok(())
}

/// A record write has no event and does not change the schedule.
async fn a_record_write_changes_only_row_and_audit(world: &World) -> Outcome {
    for (kind, builder, action) in [
        (WriteKind::Token, numbered(1).with_token(), AuditAction::TokenRecorded),
        (
            WriteKind::Closed,
            numbered(2).deregistering().with_tokens_closed(),
            AuditAction::TokensClosedRecorded,
        ),
        (WriteKind::Substrate, numbered(3).with_substrate(), AuditAction::SubstrateRecorded),
    ] {
        let change = store_all_but_last(world, &builder).await?;
        world.deliver_all().await?;
        world.pass(&world.get(builder.id()).await?, &failed_with_retry_after(HOUR)).await?;
        let id = change.resource().id();
        world.commit(kind, &change).await?;
        same_resource(&world.get(id).await?, change.resource())?;
        let line = world.last_line(id).await?;
        same("the audited actions", &line.entry.action, &action)?;
        same("the line tells of version", &line.version, &Some(change.resource().version()))?;
        same("the number of events", &world.backlog().await?.0, &0)?;
        let entry = world.entry(id).await?;
        require(!is_due(&entry), "recording set the resource due")?;
        same("failed attempts are", &entry.attempts, &1)?;
    }
    Ok(())
}

/// A deletion request is such a change, and carries its event.
async fn a_phase_change_is_due_at_once_and_clears_failures(world: &World) -> Outcome {
    let [pending, ready] = &world.store_all([numbered(1), numbered(2).ready()]).await?[..] else {
        return Err(Violation::new("two were stored"));
    };
    world.deliver_all().await?;
    for (kind, action, change) in [
        (WriteKind::Phase, AuditAction::PhaseChanged, to(pending, Phase::Provisioning, 1)?),
        (WriteKind::DeletionIntent, AuditAction::DeletionRequested, deletion(ready, 2)?),
    ] {
        let id = change.resource().id();
        world.pass(&world.get(id).await?, &failed_with_retry_after(HOUR)).await?;
        require(!is_due(&world.entry(id).await?), "it is due too early")?;
        world.commit(kind, &change).await?;
        same_resource(&world.get(id).await?, change.resource())?;
        same("the audited actions", &world.last_line(id).await?.entry.action, &action)?;
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

async fn an_abandonment_is_audited_with_its_reason(world: &World) -> Outcome {
    let stored = world.stored(&resource().deregistering().with_tokens_closed()).await?;
    let change = stored.abandon(fresh_stamp(1))?;
    let by = attribution();
    let write = Write::by_caller(&change, &by).with_event_data("the cloud account is gone");
    let written = world.repository().write(WriteKind::Phase, &write).await?;
    same("the result", &written, &Written::Committed)?;
    let line = world.last_line(stored.id()).await?;
    same("the audited actions", &line.entry.action, &AuditAction::Abandoned)?;
    let text = line.entry.event_data.as_deref();
    same("the audited reason", &text, &Some("the cloud account is gone"))?;
    require(world.get(stored.id()).await?.abandoned(), "the row is not marked as abandoned")
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

async fn the_time_of_a_change_is_the_stores(world: &World) -> Outcome {
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
    same("the event sequences", &sequences(&world.deliver_all().await?), &vec![1, 2, 3])?;
    world.pass(again.resource(), &succeeded()).await
}
