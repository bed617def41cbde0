//! Conditional applies: whoever comes late, or saw another object, changes nothing.

use broker_ports::DryRun;
use futures_util::future::join;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        a_first_apply_creates_onto_a_free_name,
        a_first_apply_onto_a_taken_name_changes_nothing,
        of_two_first_applies_one_wins,
        a_reapply_changes_the_observed_object,
        a_reapply_at_a_stale_version_changes_nothing,
        a_reapply_of_what_is_gone_creates_nothing,
        a_reapply_of_a_namesake_changes_nothing,
        of_two_reapplies_at_one_version_one_wins,
        an_apply_that_changes_nothing_keeps_the_version,
        an_apply_does_not_revive_what_is_being_deleted,
        a_provider_config_is_applied_like_any_other,
        a_cluster_scoped_composite_is_applied_without_a_namespace,
        a_dry_run_shows_and_stores_nothing,
        a_dry_run_of_a_change_stores_nothing,
        a_dry_run_tells_a_conflict,
    })
}

async fn a_first_apply_creates_onto_a_free_name(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.standing().await?;
    let live = scene.live(&subject).await?;
    require(
        live.object.version() == &version,
        "a read shows another version than the apply answered",
    )?;
    let stands = is_applied(live.object.expose(), &subject.shell(1)?);
    require(stands, "what was applied does not stand")
}

async fn a_first_apply_onto_a_taken_name_changes_nothing(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.standing().await?;
    let second = scene.apply(subject.shell(2)?, Precondition::Absent).await?;
    require(second == Applied::Conflict, "a first apply onto a taken name is no conflict")?;
    unchanged(scene, &subject.reference()?, &version).await
}

async fn of_two_first_applies_one_wins(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let (first, second) = join(
        scene.apply(subject.shell(1)?, Precondition::Absent),
        scene.apply(subject.shell(2)?, Precondition::Absent),
    )
    .await;
    one_won(first?, second?)
}

async fn a_reapply_changes_the_observed_object(scene: &Scene<'_>) -> Outcome {
    let (subject, first) = scene.standing().await?;
    let second = done(scene.apply(subject.shell(2)?, first.unchanged()).await?)?;
    require(first.uid == second.uid, "a re-apply made another object")?;
    require(first.resource_version != second.resource_version, "a change kept the version")?;
    let live = scene.live(&subject).await?;
    require(
        live.object.version() == &second,
        "a read shows another version than the apply answered",
    )?;
    require(is_applied(live.object.expose(), &subject.shell(2)?), "the change does not stand")
}

async fn a_reapply_at_a_stale_version_changes_nothing(scene: &Scene<'_>) -> Outcome {
    let (subject, first) = scene.standing().await?;
    let second = done(scene.apply(subject.shell(2)?, first.unchanged()).await?)?;
    let stale = scene.apply(subject.shell(3)?, first.unchanged()).await?;
    require(stale == Applied::Conflict, "a re-apply at a stale version is no conflict")?;
    unchanged(scene, &subject.reference()?, &second).await
}

async fn a_reapply_of_what_is_gone_creates_nothing(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.standing().await?;
    let reference = subject.reference()?;
    scene.world.delete_in_background(&reference).await?;
    scene.until_gone(&reference).await?;
    let late = scene.apply(subject.shell(1)?, version.unchanged()).await?;
    require(late == Applied::Conflict, "a re-apply of what is gone is no conflict")?;
    require(scene.world.object(&reference).await?.is_none(), "a re-apply revived what was gone")
}

async fn a_reapply_of_a_namesake_changes_nothing(scene: &Scene<'_>) -> Outcome {
    let (subject, before) = scene.standing().await?;
    let reference = subject.reference()?;
    scene.world.delete_in_background(&reference).await?;
    scene.until_gone(&reference).await?;
    let namesake = scene.shell(&subject).await?;
    let late = scene.apply(subject.shell(2)?, before.unchanged()).await?;
    require(!matches!(late, Applied::Done(_)), "a re-apply landed on another object")?;
    unchanged(scene, &reference, &namesake).await?;
    // With a version that is right by chance, only the uid tells them apart.
    let chance = ObjectVersion::new(before.uid, namesake.resource_version.clone());
    let late = scene.apply(subject.shell(2)?, chance.unchanged()).await?;
    require(late == Applied::NameTaken, "another object of that name is not told apart")?;
    unchanged(scene, &reference, &namesake).await
}

async fn of_two_reapplies_at_one_version_one_wins(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.standing().await?;
    let (first, second) = join(
        scene.apply(subject.shell(2)?, version.unchanged()),
        scene.apply(subject.shell(3)?, version.unchanged()),
    )
    .await;
    one_won(first?, second?)
}

async fn an_apply_that_changes_nothing_keeps_the_version(scene: &Scene<'_>) -> Outcome {
    let (subject, first) = scene.standing().await?;
    let again = done(scene.apply(subject.shell(1)?, first.unchanged()).await?)?;
    require(first == again, "the same apply again made another version")
}

async fn an_apply_does_not_revive_what_is_being_deleted(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    let reference = subject.reference()?;
    scene.hold(&reference).await?;
    scene.world.delete_in_background(&reference).await?;
    let version = ObjectVersion::of(&scene.object(&reference).await?)?;
    // The API server accepts it; what counts is that the object goes nevertheless.
    let _ = scene.apply(subject.shell(2)?, version.unchanged()).await?;
    let object = scene.object(&reference).await?;
    let deleting = at(&object, &["metadata", "deletionTimestamp"]).is_some();
    require(deleting, "an apply took the deletion back")?;
    scene.let_go(&reference).await?;
    scene.until_gone(&reference).await
}

async fn a_provider_config_is_applied_like_any_other(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let version = done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    let read = scene.read(&subject).await?.provider_config;
    let read = read.ok_or_else(|| Violation::new("the ProviderConfig stands, but is not read"))?;
    require(read.version() == &version, "a read shows another version than the apply answered")?;
    require(is_applied(read.expose(), &subject.provider_config()?), "it does not stand as sent")?;
    let second = scene.apply(subject.provider_config()?, Precondition::Absent).await?;
    require(second == Applied::Conflict, "a first apply onto a taken name is no conflict")
}

async fn a_cluster_scoped_composite_is_applied_without_a_namespace(scene: &Scene<'_>) -> Outcome {
    let subject = scene.resource(Blueprint::Estate)?;
    let version = scene.shell(&subject).await?;
    require(subject.reference()?.namespace().is_none(), "it was rendered into a namespace")?;
    let live = scene.live(&subject).await?;
    require(live.object.version() == &version, "it is not read where it was applied")?;
    // Nobody removes a namespace around it.
    scene.world.delete_in_background(&subject.reference()?).await?;
    scene.until_gone(&subject.reference()?).await
}

async fn a_dry_run_shows_and_stores_nothing(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let request = ApplyRequest::open(scene.project, subject.shell(1)?, Precondition::Absent);
    let DryRun::Accepted(shown) = scene.cluster.dry_run(&request).await? else {
        return Err(Violation::new("a dry run onto a free name is a conflict"));
    };
    let size = at(shown.expose(), &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "a dry run does not show what would stand")?;
    require(
        scene.world.object(&subject.reference()?).await?.is_none(),
        "a dry run stored an object",
    )
}

async fn a_dry_run_of_a_change_stores_nothing(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.standing().await?;
    let request = ApplyRequest::open(scene.project, subject.shell(2)?, version.unchanged());
    let answer = scene.cluster.dry_run(&request).await?;
    require(matches!(answer, DryRun::Accepted(_)), "a dry run at the live version is a conflict")?;
    unchanged(scene, &subject.reference()?, &version).await
}

async fn a_dry_run_tells_a_conflict(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    let request = ApplyRequest::open(scene.project, subject.shell(2)?, Precondition::Absent);
    let answer = scene.cluster.dry_run(&request).await?;
    require(matches!(answer, DryRun::Conflict), "a dry run onto a taken name is no conflict")
}

/// The object still stands at a version.
async fn unchanged(
    scene: &Scene<'_>,
    target: &ObjectReference,
    version: &ObjectVersion,
) -> Outcome {
    let live = ObjectVersion::of(&scene.object(target).await?)?;
    require(&live == version, "an apply whose precondition did not hold changed the object")
}

fn one_won(first: Applied, second: Applied) -> Outcome {
    let won = [first, second].iter().filter(|applied| matches!(applied, Applied::Done(_))).count();
    require(won == 1, "of two applies on one precondition not exactly one was done")
}
