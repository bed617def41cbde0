//! Promises of `schedule`, `entry`, `set_paused` and `wakeups`.

use broker_ports::Wakeups;
use futures_util::StreamExt;
use tokio::time::timeout;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        what_is_set_due_is_due_and_no_later,
        what_is_not_there_has_no_schedule,
        pause_and_resume_are_audited_once_each,
        whoever_listens_is_woken,
    ]
}

async fn what_is_set_due_is_due_and_no_later(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.schedule().schedule(stored.id(), Due::After(HOUR)).await?;
    require(is_due(&world.entry(stored.id()).await?), "what was due was put off")?;
    world.pass(&stored, &went_well()).await?;
    require(world.schedule().schedule(stored.id(), Due::After(HOUR)).await?, "it is not there")?;
    due_in(&world.entry(stored.id()).await?, HOUR)?;
    world.pass(&stored, &went_wrong()).await?;
    let before = world.audit_trail().await?;
    require(world.schedule().schedule(stored.id(), Due::Now).await?, "it is not there")?;
    same("failed attempts are", &world.entry(stored.id()).await?.attempts, &1)?;
    same("the audit is", &world.audit_trail().await?, &before)?;
    same("due is", &world.due_in(Lane::Converge).await?, &vec![stored.id()])
}

async fn what_is_not_there_has_no_schedule(world: &World) -> Outcome {
    let schedule = world.schedule();
    same("the entry is", &schedule.entry(id(1)).await?, &None)?;
    require(!schedule.schedule(id(1), Due::Now).await?, "nothing was set due")?;
    require(!schedule.set_paused(id(1), true, &attribution()).await?, "nothing was paused")?;
    require(world.audit_trail().await?.is_empty(), "pausing nothing left an audit line")
}

async fn pause_and_resume_are_audited_once_each(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.pass(&stored, &PassOutcome::Succeeded { due_in: Some(HOUR) }).await?;
    // Who resumes it sets it due.
    for (paused, due) in
        [(false, false), (true, false), (true, false), (false, true), (false, true)]
    {
        let there = world.pause(stored.id(), paused).await?;
        require(there, "the resource is said not to be there")?;
        let entry = world.entry(stored.id()).await?;
        same("it is paused and due", &(entry.paused, is_due(&entry)), &(paused, due))?;
    }
    let expected = vec![AuditAction::Declared, AuditAction::Paused, AuditAction::Resumed];
    same("the audit says", &world.actions(stored.id()).await?, &expected)?;
    let line = world.last_line(stored.id()).await?;
    same("the line came by", &line.entry.attribution, &attribution())?;
    same("the line tells of phase", &line.entry.new_phase, &Some(stored.phase()))
}

/// Longer than a healthy store needs to pass a hint on; only a broken one is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The listener hears of a resource. Hints of other things may come before.
async fn hears(wakeups: &mut Wakeups, id: ProvisionedResourceId, why: &str) -> Outcome {
    let hint = async {
        while let Some(woken) = wakeups.next().await {
            if woken == id {
                return true;
            }
        }
        false
    };
    let heard = timeout(PATIENCE, hint).await;
    require(heard == Ok(true), &format!("nobody is woken when {why}"))
}

async fn whoever_listens_is_woken(world: &World) -> Outcome {
    // One resource for each reason, all but one of them declared before anybody listens: a hint that somebody
    // hears then has one reason only.
    let due = world.stored(&numbered(2)).await?;
    let paused = world.stored(&numbered(3)).await?;
    let unwanted = world.stored(&numbered(4)).await?;
    world.pause(paused.id(), true).await?;
    let mut first = world.schedule().wakeups().await?;
    let mut second = world.schedule().wakeups().await?;

    let declared = world.stored(&numbered(1)).await?;
    hears(&mut first, declared.id(), "a resource is declared").await?;
    world.schedule().schedule(due.id(), Due::Now).await?;
    for listener in [&mut first, &mut second] {
        hears(listener, due.id(), "a resource is set due").await?;
    }
    drop(first);
    world.pause(paused.id(), false).await?;
    hears(&mut second, paused.id(), "a resource is resumed").await?;
    world.commit(WriteKind::DeletionIntent, &deletion(&unwanted, 1)?).await?;
    hears(&mut second, unwanted.id(), "a deletion is asked for").await
}
