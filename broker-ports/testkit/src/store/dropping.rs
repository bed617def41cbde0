//! Cases for dropped calls: a dropped call has its whole effect or none, and a retry has the effect of one call.
//!
//! A dropped call may still run in the store, so a case repeats the retry until the effect is visible.

use broker_ports::{Admitted, EventClaim};

use super::prelude::*;

pub(super) fn repository_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![a_dropped_repository_call_is_atomic]
}

pub(super) fn schedule_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![a_dropped_schedule_call_counts_once]
}

pub(super) fn outbox_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![a_dropped_outbox_call_counts_once]
}

/// The maximum number of repetitions: a store may skip rows that a dropped call still locks.
const MAX_RETRIES: u32 = 1_000;

/// The dropped call.
#[derive(Debug, Clone, Copy)]
enum Call {
    Create,
    Phase,
    Deletion,
    Replace,
    Purge,
    Claim,
    Release,
    Pause,
    Acknowledge,
    Delay,
    Retry,
}

/// A prepared call.
enum PreparedCall {
    Create(Box<Admitted>),
    Write(WriteKind, Box<Change>),
    Replace(Box<Replacement>),
    Purge,
    Claim(ProvisionedResourceId),
    Release(Lease, Version, PassOutcome),
    Pause(ProvisionedResourceId),
    Acknowledge(EventClaim),
    Delay(EventClaim),
    Retry(ProvisionedResourceId),
}

async fn a_dropped_repository_call_is_atomic(world: &World) -> Outcome {
    require_each_atomic(
        world,
        &[Call::Create, Call::Phase, Call::Deletion, Call::Replace, Call::Purge],
    )
    .await
}

async fn a_dropped_schedule_call_counts_once(world: &World) -> Outcome {
    require_each_atomic(world, &[Call::Claim, Call::Release, Call::Pause]).await
}

async fn a_dropped_outbox_call_counts_once(world: &World) -> Outcome {
    require_each_atomic(world, &[Call::Acknowledge, Call::Delay, Call::Retry]).await
}

async fn require_each_atomic(world: &World, calls: &[Call]) -> Outcome {
    for call in calls {
        require_atomic(world, *call).await?;
    }
    Ok(())
}

async fn require_atomic(world: &World, call: Call) -> Outcome {
    let first = 1_000 * (call as u128 + 1);
    perform(world, &prepare(world, call, first).await?).await?;
    let expected = (visible_state(world, first).await?, deliver_rest(world, first).await?);
    for polls in 1..=MAX_POLLS {
        let number = first + 2 * u128::from(polls);
        let prepared = prepare(world, call, number).await?;
        let result = dropped_after(polls, perform(world, &prepared)).await;
        for _ in 0..MAX_RETRIES {
            perform(world, &prepared).await?;
            if visible_state(world, number).await? == expected.0 {
                break;
            }
        }
        let found = (visible_state(world, number).await?, deliver_rest(world, number).await?);
        equal(&format!("the state after a dropped and repeated {call:?}"), &found, &expected)?;
        if let Some(completed) = result {
            return completed;
        }
    }
    Err(never_returned())
}

/// Prepares a call on the resource `number`. A replacement also uses `number + 1`.
async fn prepare(world: &World, call: Call, number: u128) -> Checked<PreparedCall> {
    let builder = nth_resource(number);
    let builder = match call {
        Call::Phase => builder.enrolling().with_token(),
        Call::Deletion | Call::Replace | Call::Acknowledge => builder.ready(),
        Call::Purge => builder.deleted(),
        Call::Create | Call::Claim | Call::Release | Call::Pause | Call::Delay | Call::Retry => {
            builder.requested_as(&format!("order-{number}"))
        }
    };
    if let Call::Create = call {
        world.register_references(&builder.declaration()).await?;
        return Ok(PreparedCall::Create(Box::new(builder.admitted())));
    }
    let stored = world.store(&builder).await?;
    let id = stored.id();
    if let Call::Phase | Call::Deletion | Call::Replace | Call::Purge = call {
        world.deliver_all().await?;
    }
    if let Call::Phase | Call::Deletion | Call::Replace = call {
        world.run_pass(&stored, &failed_pass_with_retry_after(HOUR)).await?;
    }
    Ok(match call {
        Call::Create | Call::Claim => PreparedCall::Claim(id),
        Call::Phase => PreparedCall::Write(
            WriteKind::Phase,
            Box::new(phase_change(&stored, Phase::Ready, number)?),
        ),
        Call::Deletion => PreparedCall::Write(
            WriteKind::DeletionIntent,
            Box::new(deletion_request(&stored, number)?),
        ),
        Call::Replace => {
            let new = declaration().requested_as(&format!("replace-{number}"));
            let new = nth_resource(number + 1).declared_as(new);
            world.register_references(&new.declaration()).await?;
            let stamp = fresh_stamp(number);
            PreparedCall::Replace(Box::new(Replacement::new(&stored, new.admitted(), stamp)?))
        }
        Call::Purge => {
            world.advance(LONG).await?;
            PreparedCall::Purge
        }
        Call::Release => {
            let lease = world.take_lease("dropped", id).await?;
            PreparedCall::Release(lease, stored.version(), failed_pass_with_retry_after(HOUR))
        }
        Call::Pause => PreparedCall::Pause(id),
        Call::Acknowledge => PreparedCall::Acknowledge(world.claim_event("relay").await?.claim),
        Call::Delay => PreparedCall::Delay(world.claim_event("relay").await?.claim),
        Call::Retry => {
            world.dead_letter("HTTP 410").await?;
            PreparedCall::Retry(id)
        }
    })
}

/// Performs the call. Its result does not matter.
async fn perform(world: &World, prepared: &PreparedCall) -> Outcome {
    let (repository, schedule, outbox) = (world.repository(), world.schedule(), world.outbox());
    let by = attribution();
    match prepared {
        PreparedCall::Create(admitted) => drop(repository.create(admitted).await?),
        PreparedCall::Write(kind, change) => {
            let _ = repository.write(*kind, &Write::by_caller(change, &by)).await?;
        }
        PreparedCall::Replace(replacement) => drop(repository.replace(replacement).await?),
        PreparedCall::Purge => drop(repository.purge_deleted(&AFTER_AN_HOUR).await?),
        PreparedCall::Claim(id) => {
            let target = ClaimTarget::One(*id);
            schedule.claim(&ClaimRequest::new(worker("dropped"), target, HOUR)).await?;
        }
        PreparedCall::Release(lease, seen, outcome) => {
            schedule.release(lease, *seen, outcome).await?;
        }
        PreparedCall::Pause(id) => {
            require(schedule.set_paused(*id, true, &by).await?, "the resource does not exist")?;
        }
        PreparedCall::Acknowledge(claim) => drop(outbox.acknowledge_event(claim).await?),
        PreparedCall::Delay(claim) => {
            outbox.delay_event(claim, HOUR, DeliveryFailure::Rejected).await?;
        }
        PreparedCall::Retry(id) => drop(outbox.redrive_events(*id, Redrive::Retry, &by).await?),
    }
    Ok(())
}

/// The visible state of the resources `number` and `number + 1`, without ids and times.
async fn visible_state(world: &World, number: u128) -> Checked<Vec<String>> {
    let mut states = Vec::new();
    for id in ids([number, number + 1]) {
        let resource = world.repository().get_by_id(id).await?;
        let row = resource.map(|resource| (resource.phase(), resource.version()));
        let entry = world.schedule().entry(id).await?;
        let entry = entry.map(|entry| {
            let holder = entry.lease.as_ref().map(|(worker, _)| worker.clone());
            (is_due(&entry), entry.attempts, entry.paused, entry.epoch, holder)
        });
        states.push(format!("{row:?} {entry:?} {:?}", world.actions(id).await?));
    }
    Ok(states)
}

/// Delivers all events. Returns sequence and attempts for the resources `number` and `number + 1`.
async fn deliver_rest(world: &World, number: u128) -> Checked<Vec<(u64, u32)>> {
    world.advance(HOUR * 2).await?;
    let resources = ids([number, number + 1]);
    let events = world.deliver_all().await?;
    let events = events.iter().filter(|event| resources.contains(&event.resource));
    Ok(events.map(|event| (event.sequence, event.attempts)).collect())
}
