//! Cases for deletion: foreground, and of exactly one object.

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        a_deletion_waits_for_what_was_composed,
        a_deletion_spares_the_neighbours,
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

/// Deletes an existing subject.
async fn delete(scene: &Scene<'_>, subject: &Subject) -> Checked<Deleted> {
    let live = scene.live(subject).await?;
    Ok(scene.delete(&subject.reference()?, &live.object.version().uid).await?)
}

async fn a_deletion_waits_for_what_was_composed(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    for _ in 0..2 {
        let answer = delete(scene, &subject).await?;
        require(answer == Deleted::Accepted, "a deletion is not accepted, or not again")?;
    }
    scene.until_deleting(&part).await?;
    for _ in 0..5 {
        scene.world.settle().await;
        let live = scene.live(&subject).await?;
        require(live.status.deleting, "the composite resource is not being deleted")?;
        let stands = scene.world.object(&part).await?.is_some();
        require(stands, "the composed object was torn from its holder")?;
    }
    scene.remove_finalizer(&part).await?;
    scene.until_gone(&part).await?;
    scene.until_read(&subject, |xr| matches!(xr, XrReading::Absent)).await
}

async fn a_deletion_spares_the_neighbours(scene: &Scene<'_>) -> Outcome {
    let (subject, neighbour) = (scene.machine()?, scene.machine()?);
    scene.shell(&subject).await?;
    let part = scene.composed(&neighbour).await?;
    done(scene.apply(neighbour.provider_config()?, Precondition::Absent).await?)?;
    let _ = delete(scene, &subject).await?;
    scene.until_gone(&subject.reference()?).await?;
    for target in [part, neighbour.reference()?, neighbour.config_reference()?] {
        let reached = scene.is_being_deleted(&target).await?;
        require(!reached, "the deletion of one resource reached another")?;
    }
    Ok(())
}

async fn a_deletion_of_a_namesake_changes_nothing(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let [before, namesake] = scene.replaced(&subject).await?;
    let reference = subject.reference()?;
    let answer = scene.delete(&reference, &before.uid).await?;
    require(answer == Deleted::Replaced, "a namesake is not distinguished")?;
    let live = ObjectVersion::of(&scene.object(&reference).await?)?;
    require(live == namesake, "a deletion of another object changed this one")
}

async fn a_deletion_of_an_absent_object_is_gone(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let of_no_kind = scene.of_an_absent_kind().await?;
    for never in [&subject, &of_no_kind] {
        let answer = scene.delete(&never.reference()?, UNUSED_UID).await?;
        require(answer == Deleted::Gone, "a missing object is not gone")?;
    }
    let version = scene.shell(&subject).await?;
    let _ = delete(scene, &subject).await?;
    scene.until_gone(&subject.reference()?).await?;
    let again = scene.delete(&subject.reference()?, &version.uid).await?;
    require(again == Deleted::Gone, "a deleted object is not gone")
}

async fn a_deletion_in_an_absent_namespace_is_gone(scene: &Scene<'_>) -> Outcome {
    let elsewhere = ProjectId::new(scene.world.fresh_id())?;
    let subject = scene.machine()?.in_project(elsewhere);
    let (target, uid) = (subject.reference()?, UNUSED_UID);
    let request = DeleteRequest::new(elsewhere, &target, uid);
    let answer = scene.cluster.delete(&request).await?;
    require(answer == Deleted::Gone, "an object in an absent namespace is not gone")
}

/// An object that another party deletes in the background would vanish before its composed objects.
async fn a_deletion_turns_background_into_foreground(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    scene.composed(&subject).await?;
    let reference = subject.reference()?;
    scene.add_finalizer(&reference).await?;
    scene.world.delete_in_background(&reference).await?;
    scene.until_deleting(&reference).await?;
    let status = scene.live(&subject).await?.status;
    require(status.deleting && !status.foreground, "a background deletion is read as another")?;
    let answer = delete(scene, &subject).await?;
    require(answer == Deleted::Accepted, "a running deletion is not accepted again")?;
    let status = scene.live(&subject).await?.status;
    require(status.foreground, "an accepted deletion does not wait for composed objects")?;
    // The last request decides: another background deletion ends the wait.
    scene.world.delete_in_background(&reference).await?;
    let status = scene.live(&subject).await?.status;
    require(status.deleting && !status.foreground, "a background deletion does not end the wait")?;
    scene.remove_finalizer(&reference).await
}

async fn a_veto_has_its_message_and_affects_one_object(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let (neighbour, _) = scene.existing_objects().await?;
    let words = "This resource is in-use by 1 usage(s)";
    scene.world.veto(&subject.reference()?, words).await?;
    let Deleted::Vetoed { message } = delete(scene, &subject).await? else {
        return Err(Violation::new("a veto is not reported"));
    };
    require(message.contains(words), "a veto's message is missing")?;
    require(!scene.live(&subject).await?.status.deleting, "a veto was overridden")?;
    let answer = delete(scene, &neighbour).await?;
    require(answer == Deleted::Accepted, "a veto on one object holds another of its kind")?;
    scene.until_gone(&neighbour.reference()?).await
}

async fn a_provider_config_is_deleted_alone(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let config = done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    let target = subject.config_reference()?;
    let answer = scene.delete(&target, &config.uid).await?;
    require(answer == Deleted::Accepted, "the deletion of a ProviderConfig is not accepted")?;
    scene.until_gone(&target).await?;
    require(!scene.live(&subject).await?.status.deleting, "the composite resource was deleted, too")
}

async fn a_forbidden_deletion_is_an_error(scene: &Scene<'_>) -> Outcome {
    let (subject, version) = scene.existing_objects().await?;
    let missing = scene.machine()?;
    let unprivileged = scene.world.limited_to(&[]).await?;
    for target in [subject.reference()?, missing.reference()?] {
        let request = DeleteRequest::new(scene.project, &target, &version.uid);
        require_rejected(unprivileged.delete(&request).await, "a forbidden deletion")?;
    }
    require(!scene.is_being_deleted(&subject.reference()?).await?, "a forbidden deletion happened")
}
