//! Conditional applies: whoever comes late, or saw another object, changes nothing.

use broker_ports::DryRun;
use futures_util::future::join;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        a_first_apply_creates_onto_a_free_name_only,
        of_two_applies_on_one_precondition_one_wins,
        a_reapply_changes_the_observed_object_only,
        a_reapply_of_a_namesake_changes_nothing,
        a_cluster_scoped_composite_is_applied_without_a_namespace,
        a_dry_run_shows_and_stores_nothing,
    })
}

async fn a_first_apply_creates_onto_a_free_name_only(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.standing().await?;
    stands_at(scene, &subject, &version, 1).await?;
    let second = scene.apply(subject.shell(2)?, Precondition::Absent).await?;
    require(second == Applied::Conflict, "a first apply onto a taken name is no conflict")?;
    unchanged(scene, &subject.reference()?, &version).await?;
    let again = done(scene.apply(subject.shell(1)?, version.unchanged()).await?)?;
    require(version == again, "the same apply again made another version")
}

/// A read shows the version that an apply was answered with, and what it sent.
async fn stands_at(
    scene: &Scene<'_>,
    subject: &Subject,
    version: &ObjectVersion,
    epoch: u64,
) -> Outcome {
    let live = scene.live(subject).await?;
    let same = live.object.version() == version;
    require(same, "a read shows another version than the apply answered")?;
    let stands = is_applied(live.object.expose(), &subject.shell(epoch)?);
    require(stands, "what was applied does not stand")
}

async fn of_two_applies_on_one_precondition_one_wins(scene: &Scene<'_>) -> Outcome {
    let fresh = scene.machine()?;
    let (standing, version) = scene.standing().await?;
    for (subject, precondition) in [(fresh, Precondition::Absent), (standing, version.unchanged())]
    {
        let (first, second) = join(
            scene.apply(subject.shell(2)?, precondition.clone()),
            scene.apply(subject.shell(3)?, precondition),
        )
        .await;
        let won = [first?, second?].iter().filter(|it| matches!(it, Applied::Done(_))).count();
        require(won == 1, "of two applies on one precondition not exactly one was done")?;
    }
    Ok(())
}

async fn a_reapply_changes_the_observed_object_only(scene: &Scene<'_>) -> Outcome {
    let (subject, first) = scene.standing().await?;
    let second = done(scene.apply(subject.shell(2)?, first.unchanged()).await?)?;
    require(first.uid == second.uid, "a re-apply made another object")?;
    require(first.resource_version != second.resource_version, "a change kept the version")?;
    stands_at(scene, &subject, &second, 2).await?;
    let stale = scene.apply(subject.shell(3)?, first.unchanged()).await?;
    require(stale == Applied::Conflict, "a re-apply at a stale version is no conflict")?;
    unchanged(scene, &subject.reference()?, &second).await
}

async fn a_reapply_of_a_namesake_changes_nothing(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let [before, namesake] = scene.replaced(&subject).await?;
    let reference = subject.reference()?;
    let late = scene.apply(subject.shell(2)?, before.unchanged()).await?;
    require(!matches!(late, Applied::Done(_)), "a re-apply landed on another object")?;
    unchanged(scene, &reference, &namesake).await?;
    // With a version that is right by chance, only the uid tells them apart.
    let chance = ObjectVersion::new(before.uid, namesake.resource_version.clone());
    let late = scene.apply(subject.shell(2)?, chance.unchanged()).await?;
    require(late == Applied::NameTaken, "another object of that name is not told apart")?;
    unchanged(scene, &reference, &namesake).await?;
    scene.world.delete_in_background(&reference).await?;
    scene.until_gone(&reference).await?;
    let late = scene.apply(subject.shell(1)?, namesake.unchanged()).await?;
    require(late == Applied::Conflict, "a re-apply of what is gone is no conflict")?;
    require(scene.world.object(&reference).await?.is_none(), "a re-apply revived what was gone")
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
    let dry_run = async |epoch, precondition| {
        let request = ApplyRequest::open(scene.project, subject.shell(epoch)?, precondition);
        Ok::<_, Violation>(scene.cluster.dry_run(&request).await?)
    };
    let DryRun::Accepted(shown) = dry_run(1, Precondition::Absent).await? else {
        return Err(Violation::new("a dry run onto a free name is a conflict"));
    };
    let size = at(shown.expose(), &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "a dry run does not show what would stand")?;
    let stored = scene.world.object(&subject.reference()?).await?.is_some();
    require(!stored, "a dry run stored an object")?;
    let version = scene.shell(&subject).await?;
    let change = dry_run(2, version.unchanged()).await?;
    require(matches!(change, DryRun::Accepted(_)), "a dry run at the live version is a conflict")?;
    unchanged(scene, &subject.reference()?, &version).await?;
    let taken = dry_run(2, Precondition::Absent).await?;
    require(matches!(taken, DryRun::Conflict), "a dry run onto a taken name is no conflict")
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
