//! Cases for refused writes, which change nothing.

use broker_domain::{FailureReason, Snapshot};

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_write_from_another_version_changes_nothing,
        concurrent_writes_of_one_version_commit_one,
        a_write_to_a_missing_resource_is_stale,
        a_write_after_a_lost_lease_changes_nothing,
        an_unknown_epoch_writes_nothing,
        illegal_edges_from_the_stored_phase_are_rejected,
        a_change_of_another_kind_is_rejected,
        a_write_with_a_used_event_id_is_rejected,
    ]
}

/// A resource per kind of write. Its last change is written by that kind.
fn one_of_each_kind() -> [(WriteKind, ResourceBuilder); 5] {
    [
        (WriteKind::Phase, nth_resource(1).provisioning()),
        (WriteKind::Token, nth_resource(2).with_token()),
        (WriteKind::Closed, nth_resource(3).deregistering().with_tokens_closed()),
        (WriteKind::Substrate, nth_resource(4).with_substrate()),
        (WriteKind::DeletionIntent, nth_resource(5).deregistering()),
    ]
}

/// Stores all changes of a builder but the last, and returns the last.
pub(super) async fn store_all_but_last(
    world: &World,
    builder: &ResourceBuilder,
) -> Checked<Change> {
    world.register_references(&builder.declaration()).await?;
    let _ = world.repository().create(&builder.admitted()).await?;
    let mut changes = builder.history().later;
    let (_, last) = changes.pop().ok_or(Violation::new("the builder has no later change"))?;
    for (kind, change) in &changes {
        world.commit(*kind, change).await?;
    }
    Ok(last)
}

async fn a_write_from_another_version_changes_nothing(world: &World) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let change = store_all_but_last(world, &builder).await?;
        world.commit(kind, &change).await?;
        world.require_rejected_write(kind, &change, None, Written::Stale).await?;
    }
    // Also from a future version.
    let stored = world.store(&nth_resource(6)).await?;
    let first = phase_change(&stored, Phase::Provisioning, 1)?;
    let second = phase_change(first.resource(), Phase::Enrolling, 2)?;
    world.require_rejected_write(WriteKind::Phase, &second, None, Written::Stale).await
}

async fn concurrent_writes_of_one_version_commit_one(world: &World) -> Outcome {
    let stored = world.store(&resource().enrolling().with_token()).await?;
    world.deliver_all().await?;
    let changes = (1..=16)
        .map(|number| phase_change(&stored, Phase::Ready, number))
        .collect::<Result<Vec<_>, _>>()?;
    let writes = changes.iter().map(|change| world.try_write(WriteKind::Phase, change, None));
    let results = try_join_all(writes).await?;
    for (expected, number) in [(Written::Committed, 1), (Written::Stale, 15)] {
        let count = results.iter().filter(|result| **result == expected).count();
        equal(&format!("the writes of 16 with result {expected:?}"), &count, &number)?;
    }
    equal("the version", &world.get(stored.id()).await?.version(), &stored.version().next())?;
    equal("the number of events", &world.backlog().await?.0, &1)
}

async fn a_write_to_a_missing_resource_is_stale(world: &World) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let history = builder.history();
        let (_, last) =
            history.later.last().ok_or(Violation::new("the builder has no later change"))?;
        for epoch in [None, Some(LeaseEpoch::new(1))] {
            world.require_rejected_write(kind, last, epoch, Written::Stale).await?;
        }
    }
    require(world.audit_trail().await?.is_empty(), "a write to a missing row is audited")
}

async fn a_write_after_a_lost_lease_changes_nothing(world: &World) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let change = store_all_but_last(world, &builder).await?;
        let expired = world.take_lease("cut-off", builder.id()).await?;
        world.advance(HOUR * 2).await?;
        let successor = world.take_lease("successor", builder.id()).await?;
        world
            .require_rejected_write(kind, &change, Some(expired.epoch), Written::LeaseLost)
            .await?;
        let written = world.try_write(kind, &change, Some(successor.epoch)).await?;
        equal("the result of the successor's write", &written, &Written::Committed)?;
        // Now the version is also stale. The lease is checked first.
        world
            .require_rejected_write(kind, &change, Some(expired.epoch), Written::LeaseLost)
            .await?;
    }
    Ok(())
}

async fn an_unknown_epoch_writes_nothing(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let lease = world.take_lease("a", stored.id()).await?;
    let change = phase_change(&stored, Phase::Provisioning, 1)?;
    for epoch in [LeaseEpoch::ZERO, lease.epoch.next()] {
        world
            .require_rejected_write(WriteKind::Phase, &change, Some(epoch), Written::LeaseLost)
            .await?;
    }
    // An expired lease that was not taken over still writes.
    world.advance(HOUR * 2).await?;
    world.commit_as(&lease, &change).await
}

/// A phase change from the stored version, built on a phase that the resource does not have.
fn forge_phase_change(number: u128, version: Version, to: Phase, event: u128) -> Checked<Change> {
    let builder = nth_resource(number);
    let from = match to {
        Phase::Pending => builder.with_token().provisioning(),
        Phase::Provisioning | Phase::Enrolling | Phase::Ready => builder.with_token(),
        Phase::Failed => builder.provisioning(),
        Phase::Deregistering => builder.ready(),
        Phase::Deprovisioning => builder.deregistering().with_tokens_closed(),
        Phase::Deleted => builder.deprovisioning(),
    };
    let (version, stamp) = (version.get(), fresh_stamp(100 * number + event));
    let from = from.build().snapshot();
    let forged = ProvisionedResource::hydrate(Snapshot { version, ..from })?;
    let change = match to {
        Phase::Failed => forged.fail(FailureReason::from_message("forged"), stamp)?,
        Phase::Deregistering => forged.request_deletion(stamp),
        Phase::Pending
        | Phase::Provisioning
        | Phase::Enrolling
        | Phase::Ready
        | Phase::Deprovisioning
        | Phase::Deleted => forged.advance(to, stamp)?,
    };
    change.ok_or(Violation::new("the resource is already in the phase"))
}

/// The store refuses every edge that the state machine does not have: teardown never reverses, only deletion leaves
/// Failed, and Deleted is final.
async fn illegal_edges_from_the_stored_phase_are_rejected(world: &World) -> Outcome {
    let phases = [Phase::Provisioning, Phase::Deregistering, Phase::Failed, Phase::Deleted];
    for (number, from) in (1..).zip(phases) {
        let stored = world.store(&nth_resource(number).with_token().in_phase(from)).await?;
        let before = world.state_of(stored.id()).await?;
        for (event, to) in (1..).zip(Phase::ALL).filter(|(_, to)| !from.can_become(*to)) {
            let change = forge_phase_change(number, stored.version(), to, event)?;
            let is_deletion = to == Phase::Deregistering;
            let kind = if is_deletion { WriteKind::DeletionIntent } else { WriteKind::Phase };
            let result = world.try_write(kind, &change, None).await;
            require_refused(result, "illegal_transition", &format!("{from} cannot become {to}"))?;
        }
        world.require_untouched(stored.id(), &before).await?;
    }
    Ok(())
}

async fn a_write_with_a_used_event_id_is_rejected(world: &World) -> Outcome {
    let first = world.store(&resource()).await?;
    let second = world.store(&nth_resource(2)).await?;
    world.commit(WriteKind::DeletionIntent, &deletion_request(&first, 1)?).await?;
    let before = world.state_of(second.id()).await?;
    let result =
        world.try_write(WriteKind::DeletionIntent, &deletion_request(&second, 1)?, None).await;
    require_id_conflict(result, "event_id")?;
    world.require_untouched(second.id(), &before).await
}

async fn a_change_of_another_kind_is_rejected(world: &World) -> Outcome {
    let stored = world.store(&resource().ready()).await?;
    let before = world.state_of(stored.id()).await?;
    let pending = phase_change(&stored, Phase::Pending, 1)?;
    let deletion = deletion_request(&stored, 2)?;
    let token = stored.record_token(id(9), stored.token_ordinal().next(), stored.updated_at())?;
    for (kind, change) in [
        (WriteKind::Token, &pending),
        (WriteKind::Closed, &pending),
        (WriteKind::Substrate, &pending),
        (WriteKind::DeletionIntent, &pending),
        (WriteKind::Phase, &deletion),
        (WriteKind::Phase, &token),
        (WriteKind::DeletionIntent, &token),
    ] {
        let result = world.try_write(kind, change, None).await;
        require_refused(result, "invalid_input", "change")?;
    }
    world.require_untouched(stored.id(), &before).await
}
