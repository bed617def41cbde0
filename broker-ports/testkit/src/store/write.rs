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
        a_change_has_the_time_of_the_store,
        a_resource_may_become_ready_twice,
    ]
}

async fn a_phase_change_commits_row_event_and_audit_line(world: &World) -> Outcome {
    let stored = world.store(&resource().enrolling().with_token()).await?;
    world.deliver_all().await?;
    let lease = world.take_lease("a", stored.id()).await?;
    let change = phase_change(&stored, Phase::Ready, 1)?;
    world.commit_as(&lease, &change).await?;
    require_same_resource(&world.get(stored.id()).await?, change.resource())?;

    let event = world.claim_event("relay").await?;
    equal("the bytes of the event", &Some(event.payload), &change.event().map(wire::encode))?;
    let line = world.last_line(stored.id()).await?;
    equal("the audited actions", &line.entry.action, &AuditAction::PhaseChanged)?;
    equal("the epoch of the line", &line.epoch, &Some(lease.epoch))?;
    require_line_of(&line, change.resource(), (Some(Phase::Enrolling), Some(Phase::Ready)))
}

async fn every_phase_reads_back_unchanged(world: &World) -> Outcome {
    let in_phase =
        |(number, phase)| nth_resource(number).with_token().with_substrate().in_phase(phase);
    let builders = (1..).zip(Phase::ALL).map(in_phase).chain([nth_resource(9).abandoned()]);
    for builder in builders {
        require_same_resource(&world.store(&builder).await?, &builder.build())?;
    }
    Ok(())
}

/// A record write has no event and does not change the schedule.
async fn a_record_write_changes_only_row_and_audit(world: &World) -> Outcome {
    for (kind, builder, action) in [
        (WriteKind::Token, nth_resource(1).with_token(), AuditAction::TokenRecorded),
        (
            WriteKind::Closed,
            nth_resource(2).deregistering().with_tokens_closed(),
            AuditAction::TokensClosedRecorded,
        ),
        (WriteKind::Substrate, nth_resource(3).with_substrate(), AuditAction::SubstrateRecorded),
    ] {
        let change = store_all_but_last(world, &builder).await?;
        world.deliver_all().await?;
        world
            .run_pass(&world.get(builder.id()).await?, &failed_pass_with_retry_after(HOUR))
            .await?;
        let id = change.resource().id();
        world.commit(kind, &change).await?;
        require_same_resource(&world.get(id).await?, change.resource())?;
        let line = world.last_line(id).await?;
        equal("the audited actions", &line.entry.action, &action)?;
        equal("the version of the line", &line.version, &Some(change.resource().version()))?;
        equal("the number of events", &world.backlog().await?.0, &0)?;
        let entry = world.entry(id).await?;
        require(!is_due(&entry), "a record write made the resource due")?;
        equal("the failed attempts", &entry.attempts, &1)?;
    }
    Ok(())
}

/// Includes the change by a deletion request.
async fn a_phase_change_is_due_at_once_and_clears_failures(world: &World) -> Outcome {
    let [pending, ready] = &world.store_all([nth_resource(1), nth_resource(2).ready()]).await?[..]
    else {
        return Err(Violation::new("two resources were stored"));
    };
    world.deliver_all().await?;
    for (kind, action, change) in [
        (
            WriteKind::Phase,
            AuditAction::PhaseChanged,
            phase_change(pending, Phase::Provisioning, 1)?,
        ),
        (WriteKind::DeletionIntent, AuditAction::DeletionRequested, deletion_request(ready, 2)?),
    ] {
        let id = change.resource().id();
        world.run_pass(&world.get(id).await?, &failed_pass_with_retry_after(HOUR)).await?;
        require(!is_due(&world.entry(id).await?), "the resource is due before its back-off ends")?;
        world.commit(kind, &change).await?;
        require_same_resource(&world.get(id).await?, change.resource())?;
        equal("the audited actions", &world.last_line(id).await?.entry.action, &action)?;
        let entry = world.entry(id).await?;
        require(is_due(&entry), &format!("{kind:?} did not set the resource due"))?;
        equal("the failed attempts", &entry.attempts, &0)?;
        equal("the last error", &entry.last_error, &None)?;
        let events = world.deliver_all().await?;
        let events: Vec<_> = events.into_iter().map(|event| event.payload).collect();
        equal("the events", &events, &change.event().map(wire::encode).into_iter().collect())?;
    }
    Ok(())
}

async fn an_abandonment_is_audited_with_its_reason(world: &World) -> Outcome {
    let stored = world.store(&resource().deregistering().with_tokens_closed()).await?;
    let change = stored.abandon(fresh_stamp(1))?;
    let by = attribution();
    let write = Write::by_caller(&change, &by).with_event_data("the cloud account is gone");
    let written = world.repository().write(WriteKind::Phase, &write).await?;
    equal("the result of the call", &written, &Written::Committed)?;
    let line = world.last_line(stored.id()).await?;
    equal("the audited actions", &line.entry.action, &AuditAction::Abandoned)?;
    let text = line.entry.event_data.as_deref();
    equal("the audited reason", &text, &Some("the cloud account is gone"))?;
    require(world.get(stored.id()).await?.abandoned(), "the row is not marked as abandoned")
}

async fn a_failure_is_audited_with_its_step(world: &World) -> Outcome {
    let stored = world.store(&resource().provisioning()).await?;
    let failed = stored.fail(FailureReason::from_message("quota exceeded"), fresh_stamp(1))?;
    let failed = failed.ok_or(Violation::new("the resource had already failed"))?;
    let rollback = deletion_request(failed.resource(), 2)?;
    for (kind, change) in [(WriteKind::Phase, failed), (WriteKind::DeletionIntent, rollback)] {
        world.commit(kind, &change).await?;
        let step = world.last_line(stored.id()).await?.entry.failed_step;
        equal("the failed step", &step, &Some(Phase::Provisioning))?;
    }
    Ok(())
}

async fn a_change_has_the_time_of_the_store(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let entry = world.entry(stored.id()).await?;
    require(stored.updated_at() <= entry.now, "a change lies ahead of the store's clock")?;
    world.advance(HOUR).await?;
    let stored = world.get(stored.id()).await?;
    world.commit(WriteKind::Phase, &phase_change(&stored, Phase::Provisioning, 1)?).await?;
    let changed = world.get(stored.id()).await?;
    let has_store_time = changed.updated_at() >= stored.updated_at() + HOUR / 2;
    require(has_store_time, "the time of a change is not the time of its write")?;
    let entry = world.entry(stored.id()).await?;
    require(changed.updated_at() <= entry.now, "a change lies ahead of the store's clock")
}

async fn a_resource_may_become_ready_twice(world: &World) -> Outcome {
    let stored = world.store(&resource().ready()).await?;
    let lost = phase_change(&stored, Phase::Pending, 1)?;
    world.commit(WriteKind::Phase, &lost).await?;
    let again = phase_change(lost.resource(), Phase::Ready, 2)?;
    world.commit(WriteKind::Phase, &again).await?;
    equal("the event sequences", &sequences(&world.deliver_all().await?), &vec![1, 2, 3])?;
    world.run_pass(again.resource(), &successful_pass()).await
}
