//! Cases for conditional applies: a late or misdirected apply changes nothing.

use broker_ports::DryRun;
use futures_util::future::join;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        a_first_apply_needs_a_free_name,
        concurrent_applies_on_one_precondition_have_one_winner,
        a_reapply_at_a_stale_version_conflicts,
        a_reapply_of_a_namesake_changes_nothing,
        a_cluster_scoped_composite_needs_no_namespace,
        a_dry_run_returns_the_result_and_stores_nothing,
    })
}

async fn a_first_apply_needs_a_free_name(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.existing_objects().await?;
    exists_at(scene, &subject, &version, 1).await?;
    let second = scene.apply(subject.shell(2)?, Precondition::Absent).await?;
    require(second == Applied::Conflict, "a first apply onto a used name does not conflict")?;
    unchanged(scene, &subject.reference()?, &version).await?;
    let again = done(scene.apply(subject.shell(1)?, version.unchanged()).await?)?;
    require(version == again, "the same apply again made another version")
}

/// A read returns the applied version and content.
async fn exists_at(
    scene: &Scene<'_>,
    subject: &Subject,
    version: &ObjectVersion,
    epoch: u64,
) -> Outcome {
    let live = scene.live(subject).await?;
    let same = live.object.version() == version;
    require(same, "a read returns another version than the apply")?;
    let stands = is_applied(live.object.expose(), &subject.shell(epoch)?);
    require(stands, "the applied object differs")
}

async fn concurrent_applies_on_one_precondition_have_one_winner(scene: &Scene<'_>) -> Outcome {
    let fresh = scene.machine()?;
    let (standing, version) = scene.existing_objects().await?;
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

async fn a_reapply_at_a_stale_version_conflicts(scene: &Scene<'_>) -> Outcome {
    let (subject, first) = scene.existing_objects().await?;
    let second = done(scene.apply(subject.shell(2)?, first.unchanged()).await?)?;
    require(first.uid == second.uid, "a re-apply made another object")?;
    require(first.resource_version != second.resource_version, "a change kept the version")?;
    exists_at(scene, &subject, &second, 2).await?;
    let stale = scene.apply(subject.shell(3)?, first.unchanged()).await?;
    require(stale == Applied::Conflict, "a re-apply at a stale version does not conflict")?;
    unchanged(scene, &subject.reference()?, &second).await
}

async fn a_reapply_of_a_namesake_changes_nothing(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let [before, namesake] = scene.replaced(&subject).await?;
    let reference = subject.reference()?;
    let late = scene.apply(subject.shell(2)?, before.unchanged()).await?;
    require(!matches!(late, Applied::Done(_)), "a re-apply landed on another object")?;
    unchanged(scene, &reference, &namesake).await?;
    // If the version matches by chance, only the uid differs.
    let chance = ObjectVersion::new(before.uid, namesake.resource_version.clone());
    let late = scene.apply(subject.shell(2)?, chance.unchanged()).await?;
    require(late == Applied::NameTaken, "a namesake is not distinguished")?;
    unchanged(scene, &reference, &namesake).await?;
    scene.world.delete_in_background(&reference).await?;
    scene.until_gone(&reference).await?;
    let late = scene.apply(subject.shell(1)?, namesake.unchanged()).await?;
    require(late == Applied::Conflict, "a re-apply of a deleted object does not conflict")?;
    require(scene.world.object(&reference).await?.is_none(), "a re-apply revived a deleted object")
}

async fn a_cluster_scoped_composite_needs_no_namespace(scene: &Scene<'_>) -> Outcome {
    let subject = scene.resource(Blueprint::Estate)?;
    let version = scene.shell(&subject).await?;
    require(subject.reference()?.namespace().is_none(), "it was rendered into a namespace")?;
    let live = scene.live(&subject).await?;
    require(live.object.version() == &version, "it is not read where it was applied")?;
    // It has no namespace whose removal would clean it up.
    scene.world.delete_in_background(&subject.reference()?).await?;
    scene.until_gone(&subject.reference()?).await
}

async fn a_dry_run_returns_the_result_and_stores_nothing(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let dry_run = async |epoch, precondition| {
        let request = ApplyRequest::open(scene.project, subject.shell(epoch)?, precondition);
        Ok::<_, Violation>(scene.cluster.dry_run(&request).await?)
    };
    let DryRun::Accepted(shown) = dry_run(1, Precondition::Absent).await? else {
        return Err(Violation::new("a dry run onto a free name is a conflict"));
    };
    let size = at(shown.expose(), &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "a dry run does not show the result")?;
    let stored = scene.world.object(&subject.reference()?).await?.is_some();
    require(!stored, "a dry run stored an object")?;
    let version = scene.shell(&subject).await?;
    let change = dry_run(2, version.unchanged()).await?;
    require(matches!(change, DryRun::Accepted(_)), "a dry run at the live version is a conflict")?;
    unchanged(scene, &subject.reference()?, &version).await?;
    let taken = dry_run(2, Precondition::Absent).await?;
    require(matches!(taken, DryRun::Conflict), "a dry run onto a used name does not conflict")
}

/// The object still has this version.
async fn unchanged(
    scene: &Scene<'_>,
    target: &ObjectReference,
    version: &ObjectVersion,
) -> Outcome {
    let live = ObjectVersion::of(&scene.object(target).await?)?;
    require(&live == version, "an apply whose precondition did not hold changed the object")
}
