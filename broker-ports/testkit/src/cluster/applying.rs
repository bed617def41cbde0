//! Cases for conditional applies: an apply whose precondition does not hold changes nothing.

use broker_ports::DryRun;
use futures_util::future::join;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
        a_first_apply_needs_a_free_name,
        concurrent_applies_on_one_precondition_have_one_winner,
        a_reapply_at_a_stale_version_conflicts,
        a_reapply_of_a_namesake_changes_nothing,
        a_cluster_scoped_composite_needs_no_namespace,
        a_dry_run_returns_the_result_and_stores_nothing,
    })
}

async fn a_first_apply_needs_a_free_name(fixture: &Fixture<'_>) -> Outcome {
    let (subject, version) = fixture.machine_with_shell().await?;
    require_applied(fixture, &subject, &version, 1).await?;
    let second = fixture.apply(subject.shell(2)?, Precondition::Absent).await?;
    require(second == Applied::Conflict, "a first apply onto a used name does not conflict")?;
    require_unchanged(fixture, &subject.reference()?, &version).await?;
    let second = applied_version(fixture.apply(subject.shell(1)?, version.unchanged()).await?)?;
    require(version == second, "a repeated apply of the same content changed the version")
}

/// Checks that a read returns the applied version and content.
async fn require_applied(
    fixture: &Fixture<'_>,
    subject: &Subject,
    version: &ObjectVersion,
    epoch: u64,
) -> Outcome {
    let live = fixture.live(subject).await?;
    let version_matches = live.object.version() == version;
    require(version_matches, "a read returns another version than the apply")?;
    let content_matches = is_applied(live.object.expose(), &subject.shell(epoch)?);
    require(content_matches, "the applied object differs")
}

async fn concurrent_applies_on_one_precondition_have_one_winner(fixture: &Fixture<'_>) -> Outcome {
    let new = fixture.machine()?;
    let (existing, version) = fixture.machine_with_shell().await?;
    for (subject, precondition) in [(new, Precondition::Absent), (existing, version.unchanged())] {
        let (first, second) = join(
            fixture.apply(subject.shell(2)?, precondition.clone()),
            fixture.apply(subject.shell(3)?, precondition),
        )
        .await;
        let results = [first?, second?];
        let successes = results.iter().filter(|applied| matches!(applied, Applied::Done(_)));
        require(
            successes.count() == 1,
            "two concurrent applies on one precondition did not have exactly one success",
        )?;
    }
    Ok(())
}

async fn a_reapply_at_a_stale_version_conflicts(fixture: &Fixture<'_>) -> Outcome {
    let (subject, first) = fixture.machine_with_shell().await?;
    let second = applied_version(fixture.apply(subject.shell(2)?, first.unchanged()).await?)?;
    require(first.uid == second.uid, "a re-apply made another object")?;
    require(first.resource_version != second.resource_version, "a change kept the version")?;
    require_applied(fixture, &subject, &second, 2).await?;
    let stale = fixture.apply(subject.shell(3)?, first.unchanged()).await?;
    require(stale == Applied::Conflict, "a re-apply at a stale version does not conflict")?;
    require_unchanged(fixture, &subject.reference()?, &second).await
}

async fn a_reapply_of_a_namesake_changes_nothing(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let [replaced, namesake] = fixture.replace_by_namesake(&subject).await?;
    let reference = subject.reference()?;
    let late = fixture.apply(subject.shell(2)?, replaced.unchanged()).await?;
    require(!matches!(late, Applied::Done(_)), "a re-apply landed on another object")?;
    require_unchanged(fixture, &reference, &namesake).await?;
    // The resource version may match by chance, so the uid decides.
    let same_version = ObjectVersion::new(replaced.uid, namesake.resource_version.clone());
    let late = fixture.apply(subject.shell(2)?, same_version.unchanged()).await?;
    require(late == Applied::NameTaken, "a namesake is not distinguished")?;
    require_unchanged(fixture, &reference, &namesake).await?;
    fixture.world.delete_in_background(&reference).await?;
    fixture.until_removed(&reference).await?;
    let late = fixture.apply(subject.shell(1)?, namesake.unchanged()).await?;
    require(late == Applied::Conflict, "a re-apply of a deleted object does not conflict")?;
    require(fixture.world.object(&reference).await?.is_none(), "a re-apply revived an object")
}

async fn a_cluster_scoped_composite_needs_no_namespace(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.resource(Blueprint::ClusterScoped)?;
    let version = fixture.apply_shell(&subject).await?;
    require(subject.reference()?.namespace().is_none(), "it was rendered into a namespace")?;
    let live = fixture.live(&subject).await?;
    require(live.object.version() == &version, "it is not read where it was applied")?;
    // A cluster-scoped object is not cleaned up with a namespace.
    fixture.world.delete_in_background(&subject.reference()?).await?;
    fixture.until_removed(&subject.reference()?).await
}

async fn a_dry_run_returns_the_result_and_stores_nothing(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let dry_run = async |epoch, precondition| {
        let request = ApplyRequest::open(fixture.project, subject.shell(epoch)?, precondition);
        Ok::<_, Violation>(fixture.cluster.dry_run(&request).await?)
    };
    let DryRun::Accepted(preview) = dry_run(1, Precondition::Absent).await? else {
        return Err(Violation::new("a dry run onto a free name is a conflict"));
    };
    let size = field_at(preview.expose(), &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "a dry run does not show the result")?;
    let stored = fixture.world.object(&subject.reference()?).await?.is_some();
    require(!stored, "a dry run stored an object")?;
    let version = fixture.apply_shell(&subject).await?;
    let change = dry_run(2, version.unchanged()).await?;
    require(matches!(change, DryRun::Accepted(_)), "a dry run at the live version is a conflict")?;
    require_unchanged(fixture, &subject.reference()?, &version).await?;
    let conflict = dry_run(2, Precondition::Absent).await?;
    require(matches!(conflict, DryRun::Conflict), "a dry run onto a used name does not conflict")
}

/// Checks that the object still has this version.
async fn require_unchanged(
    fixture: &Fixture<'_>,
    target: &ObjectReference,
    version: &ObjectVersion,
) -> Outcome {
    let current = ObjectVersion::of(&fixture.object(target).await?)?;
    require(&current == version, "an apply whose precondition did not hold changed the object")
}
