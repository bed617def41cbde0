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
        what_is_recorded_is_stored_and_audited_without_an_event,
        what_is_recorded_leaves_the_schedule_as_it_was,
        a_change_of_phase_is_due_at_once_and_forgets_failures,
        a_deletion_request_commits_with_its_event_and_is_due_at_once,
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
    let phases = (line.entry.previous_phase, line.entry.new_phase);
    same("the line tells of phases", &phases, &(Some(Phase::Enrolling), Some(Phase::Ready)))?;
    same("the line tells of version", &line.version, &Some(change.resource().version()))?;
    same("the line tells of epoch", &line.epoch, &Some(lease.epoch))?;
    same("the line came by", &line.entry.attribution, &attribution())?;
    same("the line tells of project", &line.entry.project, &Some(stored.project_id()))
}

async fn a_quiet_change_of_phase_carries_no_event(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.deliver_all().await?;
    world.commit(WriteKind::Phase, &to(&stored, Phase::Provisioning, 1)?).await?;
    same("there are events", &world.outbox().backlog().await?.depth, &0)?;
    let actions = world.actions(stored.id()).await?;
    same("the audit says", &actions, &vec![AuditAction::Declared, AuditAction::PhaseChanged])
}

async fn every_phase_reads_back_as_it_was_written(world: &dyn StoreUnderTest) -> Outcome {
    for (number, phase) in (1..).zip(Phase::ALL) {
        let builder = resource().numbered(number).with_token().with_substrate().in_phase(phase);
        same_resource(&world.stored(&builder).await?, &builder.build())?;
    }
    let given_up = resource().numbered(9).given_up();
    same_resource(&world.stored(&given_up).await?, &given_up.build())
}

async fn every_commit_raises_the_version_by_one(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().with_substrate().deleted()).await?;
    let history = world.repository().history(stored.id()).await?;
    let versions: Vec<_> = history.iter().filter_map(|line| line.version).collect();
    let mut expected = vec![Version::FIRST];
    while expected.len() < versions.len() {
        expected.extend(expected.last().map(|last| last.next()));
    }
    same("one line for each version", &versions, &expected)?;
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

async fn what_is_recorded_is_stored_and_audited_without_an_event(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let converging = world.stored(&resource().provisioning()).await?;
    let leaving = world.stored(&resource().numbered(2).deregistering()).await?;
    world.deliver_all().await?;
    for (kind, action, change) in recordings(&converging, &leaving)? {
        let id = change.resource().id();
        world.commit(kind, &change).await?;
        same_resource(&world.get(id).await?, change.resource())?;
        let line = world.last_line(id).await?;
        same("the audit says", &line.entry.action, &action)?;
        same("the line tells of version", &line.version, &Some(change.resource().version()))?;
        same("there are events", &world.outbox().backlog().await?.depth, &0)?;
    }
    Ok(())
}

async fn what_is_recorded_leaves_the_schedule_as_it_was(world: &dyn StoreUnderTest) -> Outcome {
    let converging = world.stored(&resource().provisioning()).await?;
    let leaving = world.stored(&resource().numbered(2).deregistering()).await?;
    world.pass(&converging, &asked_to_wait(HOUR)).await?;
    world.pass(&leaving, &asked_to_wait(HOUR)).await?;
    for (kind, _, change) in recordings(&converging, &leaving)? {
        world.commit(kind, &change).await?;
        let entry = world.entry(change.resource().id()).await?;
        require(!is_due(&entry), "recording set the resource due")?;
        same("failed attempts are", &entry.attempts, &1)?;
    }
    Ok(())
}

async fn a_change_of_phase_is_due_at_once_and_forgets_failures(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.pass(&stored, &asked_to_wait(HOUR)).await?;
    require(!is_due(&world.entry(stored.id()).await?), "it is not put off")?;
    world.commit(WriteKind::Phase, &to(&stored, Phase::Provisioning, 1)?).await?;
    let entry = world.entry(stored.id()).await?;
    require(is_due(&entry), "a change of phase did not set the resource due")?;
    same("failed attempts are", &entry.attempts, &0)?;
    same("the last error is", &entry.last_error, &None)
}

async fn a_deletion_request_commits_with_its_event_and_is_due_at_once(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    world.deliver_all().await?;
    world.pass(&stored, &asked_to_wait(HOUR)).await?;
    require(!is_due(&world.entry(stored.id()).await?), "it is not put off")?;
    let change = deletion(&stored, 1)?;
    world.commit(WriteKind::DeletionIntent, &change).await?;
    same_resource(&world.get(stored.id()).await?, change.resource())?;
    let event = world.claim_event("relay").await?;
    same("the event's bytes are", &Some(event.payload), &change.event().map(wire::encode))?;
    let line = world.last_line(stored.id()).await?;
    same("the audit says", &line.entry.action, &AuditAction::DeletionRequested)?;
    let entry = world.entry(stored.id()).await?;
    require(is_due(&entry), "a deletion request did not set the resource due")?;
    same("failed attempts are", &entry.attempts, &0)
}

async fn a_deletion_request_goes_through_whoever_holds_the_lease(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lease = world.hold("a", stored.id()).await?;
    world.commit(WriteKind::DeletionIntent, &deletion(&stored, 1)?).await?;
    let late = to(&stored, Phase::Provisioning, 2)?;
    let written = world.attempt(WriteKind::Phase, &late, Some(lease.epoch)).await?;
    same("the holder's next write is answered", &written, &Written::Stale)?;
    same("the phase is", &world.get(stored.id()).await?.phase(), &Phase::Deregistering)
}

async fn giving_up_is_audited_with_what_was_written(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().deregistering().with_tokens_closed()).await?;
    let change = stored.abandon(fresh_stamp(1))?;
    let by = attribution();
    let write = Write::by_caller(&change, &by).with_event_data("the cloud account is gone");
    same(
        "it is answered",
        &world.repository().write(WriteKind::Phase, &write).await?,
        &Written::Committed,
    )?;
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
    world.commit(WriteKind::Phase, &failed).await?;
    let step = world.last_line(stored.id()).await?.entry.failed_step;
    same("the failed step is", &step, &Some(Phase::Provisioning))?;
    world.commit(WriteKind::DeletionIntent, &deletion(failed.resource(), 2)?).await?;
    let step = world.last_line(stored.id()).await?.entry.failed_step;
    same("the rollback's failed step is", &step, &Some(Phase::Provisioning))
}

async fn the_time_of_the_last_change_is_the_stores(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let entry = world.entry(stored.id()).await?;
    require(stored.updated_at() <= entry.now, "a change lies ahead of the store's clock")?;
    world.advance(HOUR).await?;
    let stored = world.get(stored.id()).await?;
    world.commit(WriteKind::Phase, &to(&stored, Phase::Provisioning, 1)?).await?;
    let changed = world.get(stored.id()).await?;
    let entry = world.entry(stored.id()).await?;
    require(
        changed.updated_at() >= stored.updated_at() + HOUR / 2,
        "the time of a change is not when it was stored",
    )?;
    require(changed.updated_at() <= entry.now, "a change lies ahead of the store's clock")
}

async fn a_resource_may_become_ready_twice(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    let lost = to(&stored, Phase::Pending, 1)?;
    world.commit(WriteKind::Phase, &lost).await?;
    let again = to(lost.resource(), Phase::Ready, 2)?;
    world.commit(WriteKind::Phase, &again).await?;
    let told: Vec<_> = world.deliver_all().await?.iter().map(|event| event.sequence).collect();
    same("events are numbered", &told, &vec![1, 2, 3])?;
    world.pass(again.resource(), &went_well()).await
}
