//! Cases for dropped calls: a call that its caller drops halfway happened completely or not at all, and a retry leads
//! to the result of one call.
//!
//! A dropped call may still run in the store. The second call waits for it or is repeated, so that the result is
//! comparable with that of one call.

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
const ROUNDS: u32 = 1_000;

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
enum Ready {
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
    equal_one_call(world, &[Call::Create, Call::Phase, Call::Deletion, Call::Replace, Call::Purge])
        .await
}

async fn a_dropped_schedule_call_counts_once(world: &World) -> Outcome {
    equal_one_call(world, &[Call::Claim, Call::Release, Call::Pause]).await
}

async fn a_dropped_outbox_call_counts_once(world: &World) -> Outcome {
    equal_one_call(world, &[Call::Acknowledge, Call::Delay, Call::Retry]).await
}

async fn equal_one_call(world: &World, calls: &[Call]) -> Outcome {
    for call in calls {
        equals_one_call(world, *call).await?;
    }
    Ok(())
}

async fn equals_one_call(world: &World, call: Call) -> Outcome {
    let first = 1_000 * (call as u128 + 1);
    make(world, &prepared(world, call, first).await?).await?;
    let expected = (left(world, first).await?, undelivered(world, first).await?);
    for polls in 1..=MOST_POLLS {
        let number = first + 2 * u128::from(polls);
        let ready = prepared(world, call, number).await?;
        let answer = dropped_after(polls, make(world, &ready)).await;
        for _ in 0..ROUNDS {
            make(world, &ready).await?;
            if left(world, number).await? == expected.0 {
                break;
            }
        }
        let found = (left(world, number).await?, undelivered(world, number).await?);
        same(&format!("{call:?} that was dropped and asked for again left"), &found, &expected)?;
        if let Some(answered) = answer {
            return answered;
        }
    }
    Err(never_answered())
}

/// A call about the resource of a number. A replacement uses the next number.
async fn prepared(world: &World, call: Call, number: u128) -> Checked<Ready> {
    let builder = numbered(number);
    let builder = match call {
        Call::Phase => builder.enrolling().with_token(),
        Call::Deletion | Call::Replace | Call::Acknowledge => builder.ready(),
        Call::Purge => builder.deleted(),
        Call::Create | Call::Claim | Call::Release | Call::Pause | Call::Delay | Call::Retry => {
            builder.requested_as(&format!("order-{number}"))
        }
    };
    if let Call::Create = call {
        world.know(&builder.declaration()).await?;
        return Ok(Ready::Create(Box::new(builder.admitted())));
    }
    let stored = world.stored(&builder).await?;
    let id = stored.id();
    if let Call::Phase | Call::Deletion | Call::Replace | Call::Purge = call {
        world.deliver_all().await?;
    }
    if let Call::Phase | Call::Deletion | Call::Replace = call {
        world.pass(&stored, &failed_with_retry_after(HOUR)).await?;
    }
    Ok(match call {
        Call::Create | Call::Claim => Ready::Claim(id),
        Call::Phase => Ready::Write(WriteKind::Phase, Box::new(to(&stored, Phase::Ready, number)?)),
        Call::Deletion => {
            Ready::Write(WriteKind::DeletionIntent, Box::new(deletion(&stored, number)?))
        }
        Call::Replace => {
            let new = declaration().requested_as(&format!("replace-{number}"));
            let new = numbered(number + 1).declared_as(new);
            world.know(&new.declaration()).await?;
            let stamp = fresh_stamp(number);
            Ready::Replace(Box::new(Replacement::new(&stored, new.admitted(), stamp)?))
        }
        Call::Purge => {
            world.advance(LONG).await?;
            Ready::Purge
        }
        Call::Release => {
            let lease = world.hold("dropped", id).await?;
            Ready::Release(lease, stored.version(), failed_with_retry_after(HOUR))
        }
        Call::Pause => Ready::Pause(id),
        Call::Acknowledge => Ready::Acknowledge(world.claim_event("relay").await?.claim),
        Call::Delay => Ready::Delay(world.claim_event("relay").await?.claim),
        Call::Retry => {
            world.dead_letter("HTTP 410").await?;
            Ready::Retry(id)
        }
    })
}

/// Makes the call. It may lose its race.
async fn make(world: &World, ready: &Ready) -> Outcome {
    let (repository, schedule, outbox) = (world.repository(), world.schedule(), world.outbox());
    let by = attribution();
    match ready {
        Ready::Create(admitted) => drop(repository.create(admitted).await?),
        Ready::Write(kind, change) => {
            let _ = repository.write(*kind, &Write::by_caller(change, &by)).await?;
        }
        Ready::Replace(replacement) => drop(repository.replace(replacement).await?),
        Ready::Purge => drop(repository.purge_deleted(&AFTER_AN_HOUR).await?),
        Ready::Claim(id) => {
            let target = ClaimTarget::One(*id);
            schedule.claim(&ClaimRequest::new(worker("dropped"), target, HOUR)).await?;
        }
        Ready::Release(lease, seen, outcome) => {
            schedule.release(lease, *seen, outcome).await?;
        }
        Ready::Pause(id) => require(schedule.set_paused(*id, true, &by).await?, "it is gone")?,
        Ready::Acknowledge(claim) => drop(outbox.acknowledge_event(claim).await?),
        Ready::Delay(claim) => {
            outbox.delay_event(claim, HOUR, DeliveryFailure::Rejected).await?;
        }
        Ready::Retry(id) => drop(outbox.redrive_events(*id, Redrive::Retry, &by).await?),
    }
    Ok(())
}

/// The visible state of the resource of a number and of the next one, except for ids and times.
async fn left(world: &World, number: u128) -> Checked<Vec<String>> {
    let mut seen = Vec::new();
    for id in ids([number, number + 1]) {
        let resource = world.repository().get_by_id(id).await?;
        let row = resource.map(|resource| (resource.phase(), resource.version()));
        let entry = world.schedule().entry(id).await?;
        let entry = entry.map(|it| {
            let holder = it.lease.as_ref().map(|(worker, _)| worker.clone());
            (is_due(&it), it.attempts, it.paused, it.epoch, holder)
        });
        seen.push(format!("{row:?} {entry:?} {:?}", world.actions(id).await?));
    }
    Ok(seen)
}

/// Sequence and attempts of the undelivered events of both.
async fn undelivered(world: &World, number: u128) -> Checked<Vec<(u64, u32)>> {
    world.advance(HOUR * 2).await?;
    let about = ids([number, number + 1]);
    let events = world.deliver_all().await?;
    let events = events.iter().filter(|event| about.contains(&event.resource));
    Ok(events.map(|event| (event.sequence, event.attempts)).collect())
}
