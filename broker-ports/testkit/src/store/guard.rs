//! Cases for refused writes: which are refused, and that they change nothing.

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

/// A resource for each kind of write, and how its last change is written.
fn one_of_each_kind() -> [(WriteKind, ResourceBuilder); 5] {
    [
        (WriteKind::Phase, numbered(1).provisioning()),
        (WriteKind::Token, numbered(2).with_token()),
        (WriteKind::Closed, numbered(3).deregistering().with_tokens_closed()),
        (WriteKind::Substrate, numbered(4).with_substrate()),
        (WriteKind::DeletionIntent, numbered(5).deregistering()),
    ]
}

/// The last change of a life, with all earlier ones stored.
pub(super) async fn store_all_but_last(
    world: &World,
    builder: &ResourceBuilder,
) -> Checked<Change> {
    world.know(&builder.declaration()).await?;
    let _ = world.repository().create(&builder.admitted()).await?;
    let mut then = builder.life().then;
    let (_, last) = then.pop().ok_or(Violation::new("nothing happened to it"))?;
    for (kind, change) in &then {
        world.commit(*kind, change).await?;
    }
    Ok(last)
}

async fn a_write_from_another_version_changes_nothing(world: &World) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let change = store_all_but_last(world, &builder).await?;
        world.commit(kind, &change).await?;
        world.loses(kind, &change, None, Written::Stale).await?;
    }
    // Also from a future version.
    let stored = world.stored(&numbered(6)).await?;
    let first = to(&stored, Phase::Provisioning, 1)?;
    let second = to(first.resource(), Phase::Enrolling, 2)?;
    world.loses(WriteKind::Phase, &second, None, Written::Stale).await
}

async fn concurrent_writes_of_one_version_commit_one(world: &World) -> Outcome {
    let stored = world.stored(&resource().enrolling().with_token()).await?;
    world.deliver_all().await?;
    let changes =
        (1..=16).map(|number| to(&stored, Phase::Ready, number)).collect::<Result<Vec<_>, _>>()?;
    let writes = changes.iter().map(|change| world.attempt(WriteKind::Phase, change, None));
    let answers = try_join_all(writes).await?;
    for (expected, number) in [(Written::Committed, 1), (Written::Stale, 15)] {
        let answered = answers.iter().filter(|answer| **answer == expected).count();
        same(&format!("so many of 16 are {expected:?}"), &answered, &number)?;
    }
    same("the version is", &world.get(stored.id()).await?.version(), &stored.version().next())?;
    same("the number of events", &world.backlog().await?.0, &1)
}

async fn a_write_to_a_missing_resource_is_stale(world: &World) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let life = builder.life();
        let (_, last) = life.then.last().ok_or(Violation::new("nothing happened to it"))?;
        for epoch in [None, Some(LeaseEpoch::new(1))] {
            world.loses(kind, last, epoch, Written::Stale).await?;
        }
    }
    require(world.audit_trail().await?.is_empty(), "a write to nothing left an audit line")
}

async fn a_write_after_a_lost_lease_changes_nothing(world: &World) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let change = store_all_but_last(world, &builder).await?;
        let lost = world.hold("cut-off", builder.id()).await?;
        world.advance(HOUR * 2).await?;
        let taken = world.hold("successor", builder.id()).await?;
        world.loses(kind, &change, Some(lost.epoch), Written::LeaseLost).await?;
        let written = world.attempt(kind, &change, Some(taken.epoch)).await?;
        same("the result of the successor's write", &written, &Written::Committed)?;
        // The version is stale by now, too; the lease is checked first.
        world.loses(kind, &change, Some(lost.epoch), Written::LeaseLost).await?;
    }
    Ok(())
}

async fn an_unknown_epoch_writes_nothing(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lease = world.hold("a", stored.id()).await?;
    let change = to(&stored, Phase::Provisioning, 1)?;
    for epoch in [LeaseEpoch::ZERO, lease.epoch.next()] {
        world.loses(WriteKind::Phase, &change, Some(epoch), Written::LeaseLost).await?;
    }
    // An expired lease that was not taken over still writes.
    world.advance(HOUR * 2).await?;
    world.commit_as(&lease, &change).await
}

/// A phase change of a resource, from its stored version but forged from another phase.
fn forged(number: u128, version: Version, to: Phase, event: u128) -> Checked<Change> {
    let it = numbered(number);
    let from = match to {
        Phase::Pending => it.with_token().provisioning(),
        Phase::Provisioning | Phase::Enrolling | Phase::Ready => it.with_token(),
        Phase::Failed => it.provisioning(),
        Phase::Deregistering => it.ready(),
        Phase::Deprovisioning => it.deregistering().with_tokens_closed(),
        Phase::Deleted => it.deprovisioning(),
    };
    let (version, stamp) = (version.get(), fresh_stamp(100 * number + event));
    let from = from.build().snapshot();
    let pretended = ProvisionedResource::hydrate(Snapshot { version, ..from })?;
    let change = match to {
        Phase::Failed => pretended.fail(FailureReason::from_message("forged"), stamp)?,
        Phase::Deregistering => pretended.request_deletion(stamp),
        Phase::Pending
        | Phase::Provisioning
        | Phase::Enrolling
        | Phase::Ready
        | Phase::Deprovisioning
        | Phase::Deleted => pretended.advance(to, stamp)?,
    };
    change.ok_or(Violation::new("it is there already"))
}

/// The store refuses every edge that the state machine does not have: teardown never reverses, only deletion leaves
/// Failed, and Deleted is final.
async fn illegal_edges_from_the_stored_phase_are_rejected(world: &World) -> Outcome {
    let phases = [Phase::Provisioning, Phase::Deregistering, Phase::Failed, Phase::Deleted];
    for (number, from) in (1..).zip(phases) {
        let stored = world.stored(&numbered(number).with_token().in_phase(from)).await?;
        let before = world.facts(stored.id()).await?;
        for (event, to) in (1..).zip(Phase::ALL).filter(|(_, to)| !from.can_become(*to)) {
            let change = forged(number, stored.version(), to, event)?;
            let deletes = to == Phase::Deregistering;
            let kind = if deletes { WriteKind::DeletionIntent } else { WriteKind::Phase };
            let answer = world.attempt(kind, &change, None).await;
            require_refused(answer, "illegal_transition", &format!("{from} cannot become {to}"))?;
        }
        world.require_untouched(stored.id(), &before).await?;
    }
    Ok(())
}

async fn a_write_with_a_used_event_id_is_rejected(world: &World) -> Outcome {
    let first = world.stored(&resource()).await?;
    let second = world.stored(&numbered(2)).await?;
    world.commit(WriteKind::DeletionIntent, &deletion(&first, 1)?).await?;
    let before = world.facts(second.id()).await?;
    let answer = world.attempt(WriteKind::DeletionIntent, &deletion(&second, 1)?, None).await;
    require_taken(answer, "event_id")?;
    world.require_untouched(second.id(), &before).await
}

async fn a_change_of_another_kind_is_rejected(world: &World) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    let before = world.facts(stored.id()).await?;
    let pending = to(&stored, Phase::Pending, 1)?;
    let leaving = deletion(&stored, 2)?;
    let token = stored.record_token(id(9), stored.token_ordinal().next(), stored.updated_at())?;
    for (kind, change) in [
        (WriteKind::Token, &pending),
        (WriteKind::Closed, &pending),
        (WriteKind::Substrate, &pending),
        (WriteKind::DeletionIntent, &pending),
        (WriteKind::Phase, &leaving),
        (WriteKind::Phase, &token),
        (WriteKind::DeletionIntent, &token),
    ] {
        let answer = world.attempt(kind, change, None).await;
        require_refused(answer, "invalid_input", "change")?;
    }
    world.require_untouched(stored.id(), &before).await
}
