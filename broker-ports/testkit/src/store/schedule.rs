//! Cases for `schedule`, `entry`, `set_paused` and `wakeups`.

use broker_ports::Wakeups;
use futures_util::StreamExt;
use tokio::time::timeout;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_scheduled_resource_is_due_and_never_later,
        a_missing_resource_has_no_schedule,
        pause_and_resume_are_audited_once_each,
        every_subscriber_gets_wakeups,
    ]
}

async fn a_scheduled_resource_is_due_and_never_later(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.schedule().schedule(stored.id(), Due::After(HOUR)).await?;
    require(is_due(&world.entry(stored.id()).await?), "a due resource was postponed")?;
    world.pass(&stored, &succeeded()).await?;
    require(
        world.schedule().schedule(stored.id(), Due::After(HOUR)).await?,
        "the resource is missing",
    )?;
    due_in(&world.entry(stored.id()).await?, HOUR)?;
    world.pass(&stored, &failed_pass()).await?;
    let before = world.audit_trail().await?;
    require(world.schedule().schedule(stored.id(), Due::Now).await?, "the resource is missing")?;
    same("failed attempts are", &world.entry(stored.id()).await?.attempts, &1)?;
    same("the audit is", &world.audit_trail().await?, &before)?;
    same("due is", &world.due_in(Lane::Converge).await?, &vec![stored.id()])
}

async fn a_missing_resource_has_no_schedule(world: &World) -> Outcome {
    let schedule = world.schedule();
    same("the entry is", &schedule.entry(id(1)).await?, &None)?;
    require(!schedule.schedule(id(1), Due::Now).await?, "nothing was set due")?;
    require(!schedule.set_paused(id(1), true, &attribution()).await?, "nothing was paused")?;
    require(world.audit_trail().await?.is_empty(), "pausing nothing left an audit line")
}

async fn pause_and_resume_are_audited_once_each(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.pass(&stored, &PassOutcome::Succeeded { due_in: Some(HOUR) }).await?;
    // Resuming makes it due.
    for (paused, due) in
        [(false, false), (true, false), (true, false), (false, true), (false, true)]
    {
        let there = world.pause(stored.id(), paused).await?;
        require(there, "the resource is reported as missing")?;
        let entry = world.entry(stored.id()).await?;
        same("it is paused and due", &(entry.paused, is_due(&entry)), &(paused, due))?;
    }
    let expected = vec![AuditAction::Declared, AuditAction::Paused, AuditAction::Resumed];
    same("the audited actions", &world.actions(stored.id()).await?, &expected)?;
    let line = world.last_line(stored.id()).await?;
    same("the attribution of the line", &line.entry.attribution, &attribution())?;
    same("the line tells of phase", &line.entry.new_phase, &Some(stored.phase()))
}

/// The timeout for a hint; only a broken store reaches it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The subscriber gets a hint about a resource. Other hints may come first.
async fn expect_wakeup(wakeups: &mut Wakeups, id: ProvisionedResourceId, why: &str) -> Outcome {
    let hint = async {
        while let Some(woken) = wakeups.next().await {
            if woken == id {
                return true;
            }
        }
        false
    };
    let heard = timeout(TIMEOUT, hint).await;
    require(heard == Ok(true), &format!("no hint arrives when {why}"))
}

async fn every_subscriber_gets_wakeups(world: &World) -> Outcome {
    // One resource per reason, all but one declared before the subscription, so that each hint has one cause.
    let due = world.stored(&numbered(2)).await?;
    let paused = world.stored(&numbered(3)).await?;
    let unwanted = world.stored(&numbered(4)).await?;
    world.pause(paused.id(), true).await?;
    let mut first = world.schedule().wakeups().await?;
    let mut second = world.schedule().wakeups().await?;

    let declared = world.stored(&numbered(1)).await?;
    expect_wakeup(&mut first, declared.id(), "a resource is declared").await?;
    world.schedule().schedule(due.id(), Due::Now).await?;
    for listener in [&mut first, &mut second] {
        expect_wakeup(listener, due.id(), "a resource is set due").await?;
    }
    drop(first);
    world.pause(paused.id(), false).await?;
    expect_wakeup(&mut second, paused.id(), "a resource is resumed").await?;
    world.commit(WriteKind::DeletionIntent, &deletion(&unwanted, 1)?).await?;
    expect_wakeup(&mut second, unwanted.id(), "a deletion is requested").await
}
