//! Promises of the five writes: what they commit, all of it together.

use broker_domain::{BootstrapTokenId, FailureReason, ReferencesDigest, TokenOrdinal};

use super::prelude::*;
use crate::builders::composed;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_change_of_phase_commits_row_event_and_audit_line,
        a_quiet_change_of_phase_carries_no_event,
        every_phase_reads_back_as_it_was_written,
        every_commit_raises_the_version_by_one,
        what_is_recorded_is_stored_and_audited_and_nothing_else,
        a_change_of_phase_is_due_at_once_and_forgets_failures,
        a_deletion_request_goes_through_whoever_holds_the_lease,
        giving_up_is_audited_with_what_was_written,
        a_failure_is_audited_with_its_step,
        the_time_of_the_last_change_is_the_stores,
        a_resource_may_become_ready_twice,
    ]
}

async fn a_change_of_phase_commits_row_event_and_audit_line(world: &dyn StoreUnderTest) -> Outcome {
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

async fn a_quiet_change_of_phase_carries_no_event(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.deliver_all().await?;
    world.commit(WriteKind::Phase, &to(&stored, Phase::Provisioning, 1)?).await?;
    same("there are events", &world.backlog().await?.0, &0)?;
    let actions = world.actions(stored.id()).await?;
    same("the audit says", &actions, &vec![AuditAction::Declared, AuditAction::PhaseChanged])
}

async fn every_phase_reads_back_as_it_was_written(world: &dyn StoreUnderTest) -> Outcome {
    let of_phase = |(number, phase)| numbered(number).with_token().with_substrate().in_phase(phase);
    let builders = (1..).zip(Phase::ALL).map(of_phase).chain([numbered(9).given_up()]);
    for builder in builders {
        same_resource(&world.stored(&builder).await?, &builder.build())?;
    }
    Ok(())
}

async fn every_commit_raises_the_version_by_one(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().with_substrate().deleted()).await?;
    let history = world.repository().history(stored.id()).await?;
    let versions: Vec<_> = history.iter().filter_map(|line| line.version).collect();
    let expected = std::iter::successors(Some(Version::FIRST), |last| Some(last.next()));
    same("one line for each version", &versions, &expected.take(versions.len()).collect())?;
    same("the row has the last", &Some(&stored.version()), &versions.last())
}

/// A token, a closing and substrate, on a resource where each can be recorded.
fn recordings(
    converging: &ProvisionedResource,
    leaving: &ProvisionedResource,
) -> Result<[(WriteKind, AuditAction, Change); 3], Violation> {
    let at = second(500);
    let token: BootstrapTokenId = id(77);
    let token = converging.record_token(token, TokenOrdinal::FIRST.next(), at)?;
    let closed = leaving.record_closed(at)?.ok_or(Violation::new("it is closed"))?;
    let seen = token
        .resource()
        .substrate()
        .clone()
        .about_to_apply(cluster(1), composed("config"))
        .observed([composed("a"), composed("b")], ReferencesDigest::new([9; 32]));
    let seen = token.resource().record_substrate(seen, at)?;
    let seen = seen.ok_or(Violation::new("it is on record"))?;
    Ok([
        (WriteKind::Token, AuditAction::TokenRecorded, token),
        (WriteKind::Closed, AuditAction::TokensClosedRecorded, closed),
        (WriteKind::Substrate, AuditAction::SubstrateRecorded, seen),
    ])
}

/// A recording has no event, and leaves the schedule as it was.
async fn what_is_recorded_is_stored_and_audited_and_nothing_else(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let converging = world.stored(&resource().provisioning()).await?;
    let leaving = world.stored(&numbered(2).deregistering()).await?;
    world.deliver_all().await?;
    world.pass(&converging, &asked_to_wait(HOUR)).await?;
    world.pass(&leaving, &asked_to_wait(HOUR)).await?;
    for (kind, action, change) in recordings(&converging, &leaving)? {
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
async fn a_change_of_phase_is_due_at_once_and_forgets_failures(
    world: &dyn StoreUnderTest,
) -> Outcome {
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

async fn a_deletion_request_goes_through_whoever_holds_the_lease(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lease = world.hold("a", stored.id()).await?;
    world.commit(WriteKind::DeletionIntent, &deletion(&stored, 1)?).await?;
    let late = to(&stored, Phase::Provisioning, 2)?;
    world.loses(WriteKind::Phase, &late, Some(lease.epoch), Written::Stale).await?;
    same("the phase is", &world.get(stored.id()).await?.phase(), &Phase::Deregistering)
}

async fn giving_up_is_audited_with_what_was_written(world: &dyn StoreUnderTest) -> Outcome {
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

async fn a_failure_is_audited_with_its_step(world: &dyn StoreUnderTest) -> Outcome {
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

async fn the_time_of_the_last_change_is_the_stores(world: &dyn StoreUnderTest) -> Outcome {
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

async fn a_resource_may_become_ready_twice(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    let lost = to(&stored, Phase::Pending, 1)?;
    world.commit(WriteKind::Phase, &lost).await?;
    let again = to(lost.resource(), Phase::Ready, 2)?;
    world.commit(WriteKind::Phase, &again).await?;
    same("events are numbered", &sequences(&world.deliver_all().await?), &vec![1, 2, 3])?;
    world.pass(again.resource(), &went_well()).await
}
