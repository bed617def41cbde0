//! Cases for deletion: in the foreground, and of exactly one object.

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
        a_deletion_waits_for_composed_objects,
        a_deletion_affects_no_other_resource,
        a_deletion_of_a_namesake_changes_nothing,
        a_deletion_of_an_absent_object_is_gone,
        a_deletion_in_an_absent_namespace_is_gone,
        a_deletion_turns_background_into_foreground,
        a_veto_has_its_message_and_affects_one_object,
        a_provider_config_is_deleted_alone,
        a_forbidden_deletion_is_an_error,
    })
}

/// A uid that no object has.
pub(super) const UNUSED_UID: &str = "00000000-0000-4000-8000-000000000000";

/// Deletes the composite resource of a subject.
async fn delete_xr(fixture: &Fixture<'_>, subject: &Subject) -> Checked<Deleted> {
    let live = fixture.live(subject).await?;
    Ok(fixture.delete(&subject.reference()?, &live.object.version().uid).await?)
}

async fn a_deletion_waits_for_composed_objects(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let part = fixture.apply_composed(&subject).await?;
    for _ in 0..2 {
        let result = delete_xr(fixture, &subject).await?;
        require(result == Deleted::Accepted, "a first or repeated deletion is not accepted")?;
    }
    fixture.until_deleting(&part).await?;
    for _ in 0..5 {
        fixture.world.settle().await;
        let live = fixture.live(&subject).await?;
        require(live.status.deleting, "the composite resource is not being deleted")?;
        let exists = fixture.world.object(&part).await?.is_some();
        require(exists, "the composed object was removed despite its finalizer")?;
    }
    fixture.remove_finalizer(&part).await?;
    fixture.until_removed(&part).await?;
    fixture.until_read(&subject, |xr| matches!(xr, XrReading::Absent)).await
}

async fn a_deletion_affects_no_other_resource(fixture: &Fixture<'_>) -> Outcome {
    let (subject, other) = (fixture.machine()?, fixture.machine()?);
    fixture.apply_shell(&subject).await?;
    let part = fixture.apply_composed(&other).await?;
    applied_version(fixture.apply(other.provider_config()?, Precondition::Absent).await?)?;
    let _ = delete_xr(fixture, &subject).await?;
    fixture.until_removed(&subject.reference()?).await?;
    for target in [part, other.reference()?, other.config_reference()?] {
        let is_deleted = fixture.is_being_deleted(&target).await?;
        require(!is_deleted, "the deletion of one resource also deleted an object of another")?;
    }
    Ok(())
}

async fn a_deletion_of_a_namesake_changes_nothing(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let [replaced, namesake] = fixture.replace_by_namesake(&subject).await?;
    let reference = subject.reference()?;
    let result = fixture.delete(&reference, &replaced.uid).await?;
    require(result == Deleted::Replaced, "a namesake is not distinguished")?;
    let current = ObjectVersion::of(&fixture.object(&reference).await?)?;
    require(current == namesake, "a deletion of another object changed this one")
}

async fn a_deletion_of_an_absent_object_is_gone(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let unserved = fixture.resource_of_removed_kind().await?;
    for missing in [&subject, &unserved] {
        let result = fixture.delete(&missing.reference()?, UNUSED_UID).await?;
        require(result == Deleted::Gone, "the deletion of a missing object does not return Gone")?;
    }
    let version = fixture.apply_shell(&subject).await?;
    let _ = delete_xr(fixture, &subject).await?;
    fixture.until_removed(&subject.reference()?).await?;
    let second = fixture.delete(&subject.reference()?, &version.uid).await?;
    require(second == Deleted::Gone, "the deletion of a deleted object does not return Gone")
}

async fn a_deletion_in_an_absent_namespace_is_gone(fixture: &Fixture<'_>) -> Outcome {
    let project = ProjectId::new(fixture.world.fresh_id())?;
    let subject = fixture.machine()?.in_project(project);
    let (target, uid) = (subject.reference()?, UNUSED_UID);
    let request = DeleteRequest::new(project, &target, uid);
    let result = fixture.cluster.delete(&request).await?;
    require(result == Deleted::Gone, "without its namespace, the object is not Gone")
}

/// After a background deletion the object would be removed before its composed objects.
async fn a_deletion_turns_background_into_foreground(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    fixture.apply_composed(&subject).await?;
    let reference = subject.reference()?;
    fixture.add_finalizer(&reference).await?;
    fixture.world.delete_in_background(&reference).await?;
    fixture.until_deleting(&reference).await?;
    let status = fixture.live(&subject).await?.status;
    require(status.deleting && !status.foreground, "it is read as a foreground deletion")?;
    let result = delete_xr(fixture, &subject).await?;
    require(result == Deleted::Accepted, "a running deletion is not accepted again")?;
    let status = fixture.live(&subject).await?.status;
    require(status.foreground, "an accepted deletion does not wait for composed objects")?;
    // The last request decides: another background deletion ends the wait.
    fixture.world.delete_in_background(&reference).await?;
    let status = fixture.live(&subject).await?.status;
    require(status.deleting && !status.foreground, "a background deletion does not end the wait")?;
    fixture.remove_finalizer(&reference).await
}

async fn a_veto_has_its_message_and_affects_one_object(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let (other, _) = fixture.machine_with_shell().await?;
    let veto = "This resource is in-use by 1 usage(s)";
    fixture.world.veto(&subject.reference()?, veto).await?;
    let Deleted::Vetoed { message } = delete_xr(fixture, &subject).await? else {
        return Err(Violation::new("a veto is not reported"));
    };
    require(message.contains(veto), "a veto's message is missing")?;
    require(!fixture.live(&subject).await?.status.deleting, "a veto was overridden")?;
    let result = delete_xr(fixture, &other).await?;
    require(result == Deleted::Accepted, "a veto on one object blocks another one")?;
    fixture.until_removed(&other.reference()?).await
}

async fn a_provider_config_is_deleted_alone(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let config =
        applied_version(fixture.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    let target = subject.config_reference()?;
    let result = fixture.delete(&target, &config.uid).await?;
    require(result == Deleted::Accepted, "the deletion of a ProviderConfig is not accepted")?;
    fixture.until_removed(&target).await?;
    require(!fixture.live(&subject).await?.status.deleting, "its composite resource is deleted")
}

async fn a_forbidden_deletion_is_an_error(fixture: &Fixture<'_>) -> Outcome {
    let (subject, version) = fixture.machine_with_shell().await?;
    let missing = fixture.machine()?;
    let unprivileged = fixture.world.limited_to(&[]).await?;
    for target in [subject.reference()?, missing.reference()?] {
        let request = DeleteRequest::new(fixture.project, &target, &version.uid);
        require_rejected(unprivileged.delete(&request).await, "a forbidden deletion")?;
    }
    require(!fixture.is_being_deleted(&subject.reference()?).await?, "the deletion succeeded")
}
