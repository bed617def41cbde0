//! Promises about patience: a request that its caller drops half way happened wholly or not at all.
//!
//! It may still be under way, and land after whatever comes next. What it was sent on decides what it can do
//! then, so that asking again from what is read leads to the end.

use broker_ports::LiveXr;

use super::arming::{annotation, holds_token};
use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    dropping_suite_of!(Scene {
        a_first_apply_that_was_dropped_is_whole_or_nothing,
        an_arm_that_was_dropped_is_whole_or_nothing,
        a_deletion_that_was_dropped_still_waits,
    })
}

async fn a_first_apply_that_was_dropped_is_whole_or_nothing(
    scene: &Scene<'_>,
    polls: u32,
) -> Dropped {
    let subject = scene.machine()?;
    let request = ApplyRequest::open(scene.project, subject.shell(1)?, Precondition::Absent);
    let answer = dropped_after(polls, scene.cluster.apply(&request)).await;
    match scene.cluster.apply(&request).await? {
        Applied::Done(_) => require(answer.is_none(), "a name was given twice")?,
        Applied::Conflict => {}
        Applied::NameTaken => return Err(Violation::new("nobody else took the name")),
    }
    let live = scene.live(&subject).await?;
    require(is_applied(live.object.expose(), &subject.shell(1)?), "half a shell stands")?;
    Ok(answer.is_some())
}

async fn an_arm_that_was_dropped_is_whole_or_nothing(scene: &Scene<'_>, polls: u32) -> Dropped {
    let subject = scene.machine()?;
    let shell = scene.shell(&subject).await?;
    let request = ApplyRequest::sealed(scene.project, subject.sealed()?, shell.unchanged());
    let answer = dropped_after(polls, scene.cluster.apply(&request)).await;
    let mut rounds = scene.rounds("a shell is never armed");
    while !is_armed(&scene.live(&subject).await?)? {
        rounds.wait().await?;
        // Either of the two lands; the other one finds another version.
        let seen = scene.live(&subject).await?;
        let _ = scene.arm(&subject, seen.object.version()).await?;
    }
    let answered = answer.is_some();
    answer.transpose()?.map(done).transpose()?;
    Ok(answered)
}

/// Wholly armed, or wholly a shell.
fn is_armed(live: &LiveXr) -> Checked<bool> {
    let object = live.object.expose();
    let paused = annotation(object, PAUSED_ANNOTATION) == Some("true");
    match (live.armed, paused, holds_token(object)) {
        (Arming::Shell, true, false) => Ok(false),
        (Arming::Armed(_), false, true) => Ok(true),
        (armed, paused, token) => Err(Violation::new(format!(
            "half an arm stands: {armed:?}, paused {paused}, with a token {token}"
        ))),
    }
}

async fn a_deletion_that_was_dropped_still_waits(scene: &Scene<'_>, polls: u32) -> Dropped {
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    let (target, live) = (subject.reference()?, scene.live(&subject).await?);
    let uid = live.object.version().uid.as_str();
    let request = DeleteRequest::new(scene.project, &target, uid);
    let answer = dropped_after(polls, scene.cluster.delete(&request)).await;
    scene.world.settle().await;
    let again = scene.cluster.delete(&request).await?;
    require(again == Deleted::Accepted, "it is gone while what it composed stands")?;
    scene.until_deleting(&part).await?;
    scene.let_go(&part).await?;
    scene.until_read(&subject, |xr| matches!(xr, XrReading::Absent)).await?;
    Ok(answer.is_some())
}
