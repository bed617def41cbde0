//! Promises of the five writes: what they refuse, and that a refusal changes nothing.

use broker_domain::Snapshot;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_write_from_an_older_version_changes_nothing,
        a_write_from_a_newer_version_changes_nothing,
        of_16_writers_of_one_version_one_commits,
        a_write_to_a_resource_that_is_not_there_is_stale,
        a_write_of_a_worker_that_lost_its_lease_changes_nothing,
        an_epoch_that_was_never_given_writes_nothing,
        a_worker_that_lost_lease_and_version_is_told_of_the_lease,
        a_lease_that_is_over_and_was_not_taken_still_writes,
        illegal_edges_on_the_way_up_are_refused_from_the_stored_phase,
        teardown_never_turns_back,
        a_failed_resource_is_left_by_deletion_alone,
        a_deleted_resource_stays_deleted,
        a_change_of_another_kind_is_refused,
        a_write_with_an_event_id_that_is_taken_is_refused,
    ]
}

/// A resource for each kind of write, and how the last change of its life is written.
fn one_of_each_kind() -> [(WriteKind, ResourceBuilder); 5] {
    [
        (WriteKind::Phase, resource().provisioning()),
        (WriteKind::Token, resource().numbered(2).with_token()),
        (WriteKind::Closed, resource().numbered(3).deregistering().with_tokens_closed()),
        (WriteKind::Substrate, resource().numbered(4).with_substrate()),
        (WriteKind::DeletionIntent, resource().numbered(5).deregistering()),
    ]
}

/// Stores everything of a life but its last change, and answers that one.
async fn all_but_the_last(
    world: &dyn StoreUnderTest,
    builder: &ResourceBuilder,
) -> Result<Change, Violation> {
    world.know(&builder.declaration()).await?;
    let _ = world.repository().create(&builder.admitted()).await?;
    let mut then = builder.life().then;
    let (_, last) = then.pop().ok_or(Violation::new("nothing happened to it"))?;
    for (kind, change) in &then {
        world.commit(*kind, change).await?;
    }
    Ok(last)
}

async fn a_write_from_an_older_version_changes_nothing(world: &dyn StoreUnderTest) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let change = all_but_the_last(world, &builder).await?;
        world.commit(kind, &change).await?;
        let before = world.facts(builder.id()).await?;
        let written = world.attempt(kind, &change, None).await?;
        same("the same write a second time is answered", &written, &Written::Stale)?;
        world.require_untouched(builder.id(), &before).await?;
    }
    Ok(())
}

async fn a_write_from_a_newer_version_changes_nothing(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let first = to(&stored, Phase::Provisioning, 1)?;
    let second = to(first.resource(), Phase::Enrolling, 2)?;
    let before = world.facts(stored.id()).await?;
    let written = world.attempt(WriteKind::Phase, &second, None).await?;
    same("a write that skips one is answered", &written, &Written::Stale)?;
    world.require_untouched(stored.id(), &before).await
}

async fn of_16_writers_of_one_version_one_commits(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().enrolling().with_token()).await?;
    world.deliver_all().await?;
    let changes =
        (1..=16).map(|number| to(&stored, Phase::Ready, number)).collect::<Result<Vec<_>, _>>()?;
    let by = attribution();
    let writes: Vec<_> = changes.iter().map(|change| Write::by_caller(change, &by)).collect();
    let answers =
        try_join_all(writes.iter().map(|write| world.repository().write(WriteKind::Phase, write)))
            .await?;
    let committed = answers.iter().filter(|answer| **answer == Written::Committed).count();
    same("so many of 16 committed", &committed, &1)?;
    let stale = answers.iter().filter(|answer| **answer == Written::Stale).count();
    same("so many of 16 are stale", &stale, &15)?;
    same("the version is", &world.get(stored.id()).await?.version(), &stored.version().next())?;
    same("there are events", &world.outbox().backlog().await?.depth, &1)
}

async fn a_write_to_a_resource_that_is_not_there_is_stale(world: &dyn StoreUnderTest) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let life = builder.life();
        let (_, last) = life.then.last().ok_or(Violation::new("nothing happened to it"))?;
        for epoch in [None, Some(LeaseEpoch::new(1))] {
            let written = world.attempt(kind, last, epoch).await?;
            same("it is answered", &written, &Written::Stale)?;
        }
    }
    require(world.audit_trail().await?.is_empty(), "a write to nothing left an audit line")
}

async fn a_write_of_a_worker_that_lost_its_lease_changes_nothing(
    world: &dyn StoreUnderTest,
) -> Outcome {
    for (kind, builder) in one_of_each_kind() {
        let change = all_but_the_last(world, &builder).await?;
        let lost = world.hold("cut-off", builder.id()).await?;
        world.advance(HOUR * 2).await?;
        let taken = world.hold("successor", builder.id()).await?;
        let before = world.facts(builder.id()).await?;
        let written = world.attempt(kind, &change, Some(lost.epoch)).await?;
        same("it is answered", &written, &Written::LeaseLost)?;
        world.require_untouched(builder.id(), &before).await?;
        let written = world.attempt(kind, &change, Some(taken.epoch)).await?;
        same("the successor's is answered", &written, &Written::Committed)?;
    }
    Ok(())
}

async fn an_epoch_that_was_never_given_writes_nothing(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lease = world.hold("a", stored.id()).await?;
    let before = world.facts(stored.id()).await?;
    let change = to(&stored, Phase::Provisioning, 1)?;
    for epoch in [LeaseEpoch::ZERO, lease.epoch.next()] {
        let written = world.attempt(WriteKind::Phase, &change, Some(epoch)).await?;
        same("it is answered", &written, &Written::LeaseLost)?;
    }
    world.require_untouched(stored.id(), &before).await
}

async fn a_worker_that_lost_lease_and_version_is_told_of_the_lease(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lost = world.hold("cut-off", stored.id()).await?;
    world.advance(HOUR * 2).await?;
    let taken = world.hold("successor", stored.id()).await?;
    let change = to(&stored, Phase::Provisioning, 1)?;
    world.commit_as(&taken, &change).await?;
    let before = world.facts(stored.id()).await?;
    let late = to(&stored, Phase::Provisioning, 2)?;
    let written = world.attempt(WriteKind::Phase, &late, Some(lost.epoch)).await?;
    same("it is answered", &written, &Written::LeaseLost)?;
    world.require_untouched(stored.id(), &before).await
}

async fn a_lease_that_is_over_and_was_not_taken_still_writes(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lease = world.hold("slow", stored.id()).await?;
    world.advance(HOUR * 2).await?;
    let change = to(&stored, Phase::Provisioning, 1)?;
    world.commit_as(&lease, &change).await
}

/// A change into a phase that claims to be made from a version of a resource that in truth stands elsewhere.
fn forged(stored: &ProvisionedResource, to: Phase, number: u128) -> Result<Change, Violation> {
    let from = match to {
        Phase::Pending | Phase::Provisioning | Phase::Enrolling | Phase::Ready => {
            let other = if to == Phase::Pending { Phase::Provisioning } else { Phase::Pending };
            resource().with_token().in_phase(other)
        }
        Phase::Failed => resource().provisioning(),
        Phase::Deregistering => resource().ready(),
        Phase::Deprovisioning => resource().deregistering().with_tokens_closed(),
        Phase::Deleted => resource().deprovisioning(),
    };
    let pretended = ProvisionedResource::hydrate(Snapshot {
        version: stored.version().get(),
        ..from.build().snapshot()
    })?;
    let stamp = fresh_stamp(number);
    let change = match to {
        Phase::Failed => {
            pretended.fail(broker_domain::FailureReason::from_message("forged"), stamp)?
        }
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

/// Every edge that the state machine does not have from a phase is refused there.
async fn refuses_illegal_edges_from(world: &dyn StoreUnderTest, from: Phase) -> Outcome {
    let stored = world.stored(&resource().with_token().in_phase(from)).await?;
    let before = world.facts(stored.id()).await?;
    for (number, to) in (1..).zip(Phase::ALL).filter(|(_, to)| !from.can_become(*to)) {
        let change = forged(&stored, to, number)?;
        let kind = match to {
            Phase::Deregistering => WriteKind::DeletionIntent,
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Ready
            | Phase::Failed
            | Phase::Deprovisioning
            | Phase::Deleted => WriteKind::Phase,
        };
        let answer = world.attempt(kind, &change, None).await;
        require_refused(answer, "illegal_transition", &format!("{from} cannot become {to}"))?;
    }
    world.require_untouched(stored.id(), &before).await
}

async fn illegal_edges_on_the_way_up_are_refused_from_the_stored_phase(
    world: &dyn StoreUnderTest,
) -> Outcome {
    refuses_illegal_edges_from(world, Phase::Provisioning).await
}

async fn teardown_never_turns_back(world: &dyn StoreUnderTest) -> Outcome {
    refuses_illegal_edges_from(world, Phase::Deregistering).await
}

async fn a_failed_resource_is_left_by_deletion_alone(world: &dyn StoreUnderTest) -> Outcome {
    refuses_illegal_edges_from(world, Phase::Failed).await
}

async fn a_deleted_resource_stays_deleted(world: &dyn StoreUnderTest) -> Outcome {
    refuses_illegal_edges_from(world, Phase::Deleted).await
}

async fn a_write_with_an_event_id_that_is_taken_is_refused(world: &dyn StoreUnderTest) -> Outcome {
    let first = world.stored(&resource()).await?;
    let second = world.stored(&resource().numbered(2)).await?;
    world.commit(WriteKind::DeletionIntent, &deletion(&first, 1)?).await?;
    let before = world.facts(second.id()).await?;
    let answer = world.attempt(WriteKind::DeletionIntent, &deletion(&second, 1)?, None).await;
    require_refused(answer, "invalid_input", "event_id")?;
    world.require_untouched(second.id(), &before).await
}

async fn a_change_of_another_kind_is_refused(world: &dyn StoreUnderTest) -> Outcome {
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
