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
    let stored = world.store(&resource()).await?;
    world.schedule().schedule(stored.id(), Due::After(HOUR)).await?;
    require(is_due(&world.entry(stored.id()).await?), "a due resource was postponed")?;
    world.run_pass(&stored, &successful_pass()).await?;
    require(world.schedule().schedule(stored.id(), Due::After(HOUR)).await?, "it is missing")?;
    require_due_in(&world.entry(stored.id()).await?, HOUR)?;
    world.run_pass(&stored, &failed_pass()).await?;
    let before = world.audit_trail().await?;
    require(world.schedule().schedule(stored.id(), Due::Now).await?, "the resource is missing")?;
    equal("the failed attempts", &world.entry(stored.id()).await?.attempts, &1)?;
    equal("the audit trail", &world.audit_trail().await?, &before)?;
    equal("the due resources", &world.due_resources(Lane::Converge).await?, &vec![stored.id()])
}

async fn a_missing_resource_has_no_schedule(world: &World) -> Outcome {
    let schedule = world.schedule();
    equal("the entry", &schedule.entry(id(1)).await?, &None)?;
    require(!schedule.schedule(id(1), Due::Now).await?, "a missing resource was set due")?;
    require(!schedule.set_paused(id(1), true, &attribution()).await?, "a missing row was paused")?;
    require(world.audit_trail().await?.is_empty(), "the pause of a missing row is audited")
}

async fn pause_and_resume_are_audited_once_each(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    world.run_pass(&stored, &PassOutcome::Succeeded { due_in: Some(HOUR) }).await?;
    // Resuming makes it due.
    for (paused, due) in
        [(false, false), (true, false), (true, false), (false, true), (false, true)]
    {
        let exists = world.pause(stored.id(), paused).await?;
        require(exists, "the resource is reported as missing")?;
        let entry = world.entry(stored.id()).await?;
        equal("paused and due", &(entry.paused, is_due(&entry)), &(paused, due))?;
    }
    let expected = vec![AuditAction::Declared, AuditAction::Paused, AuditAction::Resumed];
    equal("the audited actions", &world.actions(stored.id()).await?, &expected)?;
    let line = world.last_line(stored.id()).await?;
    equal("the attribution of the line", &line.entry.attribution, &attribution())?;
    equal("the phase of the line", &line.entry.new_phase, &Some(stored.phase()))
}

/// The timeout for a wakeup; only a broken store reaches it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for a wakeup of a resource. Other wakeups may come first.
async fn expect_wakeup(wakeups: &mut Wakeups, id: ProvisionedResourceId, cause: &str) -> Outcome {
    let hint = async {
        while let Some(resource) = wakeups.next().await {
            if resource == id {
                return true;
            }
        }
        false
    };
    let woken = timeout(TIMEOUT, hint).await;
    require(woken == Ok(true), &format!("no wakeup arrives when {cause}"))
}

async fn every_subscriber_gets_wakeups(world: &World) -> Outcome {
    // One resource per cause. All but one are declared before the subscription, so that each wakeup has one cause.
    let due = world.store(&nth_resource(2)).await?;
    let paused = world.store(&nth_resource(3)).await?;
    let deleted = world.store(&nth_resource(4)).await?;
    world.pause(paused.id(), true).await?;
    let mut first = world.schedule().wakeups().await?;
    let mut second = world.schedule().wakeups().await?;

    let declared = world.store(&nth_resource(1)).await?;
    expect_wakeup(&mut first, declared.id(), "a resource is declared").await?;
    world.schedule().schedule(due.id(), Due::Now).await?;
    for listener in [&mut first, &mut second] {
        expect_wakeup(listener, due.id(), "a resource is set due").await?;
    }
    drop(first);
    world.pause(paused.id(), false).await?;
    expect_wakeup(&mut second, paused.id(), "a resource is resumed").await?;
    world.commit(WriteKind::DeletionIntent, &deletion_request(&deleted, 1)?).await?;
    expect_wakeup(&mut second, deleted.id(), "a deletion is requested").await
}
