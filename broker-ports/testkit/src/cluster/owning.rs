//! Cases for field ownership: the broker's fields follow its manifest, other fields stay.

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        an_apply_keeps_fields_of_other_managers,
        an_apply_removes_fields_it_no_longer_sends,
        an_apply_restores_our_fields_from_other_writers,
    })
}

async fn an_apply_keeps_fields_of_other_managers(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let reference = subject.reference()?;
    let patch = json!({
        "metadata": {"labels": {"team": "blue"}, "annotations": {"note": "hands off"}},
        "spec": {"parameters": {"note": "theirs"}},
    });
    scene.world.patch("another-writer", &reference, &patch).await?;
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Available",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    scene.world.patch_status(&reference, &json!({"status": {"conditions": [condition]}})).await?;
    let before = scene.object(&reference).await?;
    let version = ObjectVersion::of(&before)?;
    done(scene.apply(subject.shell(2)?, version.unchanged()).await?)?;
    let object = scene.object(&reference).await?;
    require(before.get("status") == object.get("status"), "an apply changed the status")?;
    for (path, value) in [
        (&["metadata", "labels", "team"][..], "blue"),
        (&["metadata", "annotations", "note"], "hands off"),
        (&["spec", "parameters", "note"], "theirs"),
    ] {
        let stays = at(&object, path) == Some(&json!(value));
        require(stays, &format!("{} of another owner was changed", path.join(".")))?;
    }
    Ok(())
}

async fn an_apply_removes_fields_it_no_longer_sends(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?.with_parameters(r#"{"note":"ours","size":"small"}"#)?;
    let version = scene.shell(&subject).await?;
    let subject = subject.with_parameters(r#"{"size":"small"}"#)?;
    done(scene.apply(subject.shell(1)?, version.unchanged()).await?)?;
    let object = scene.object(&subject.reference()?).await?;
    let note = at(&object, &["spec", "parameters", "note"]);
    require(note.is_none(), "a field that is no longer sent still exists")?;
    let size = at(&object, &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "a field that is still sent was removed")
}

async fn an_apply_restores_our_fields_from_other_writers(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let reference = subject.reference()?;
    let patch = json!({"spec": {"parameters": {"size": "large"}}});
    scene.world.patch("another-writer", &reference, &patch).await?;
    let drifted = scene.live(&subject).await?;
    let stands = is_applied(drifted.object.expose(), &subject.shell(1)?);
    require(!stands, "a change by another writer is missing")?;
    let rivals = async || {
        let report = scene.cluster.inspect(&subject.target()?).await?.xr?;
        Ok::<_, Violation>(report.map(|report| report.rival_managers).unwrap_or_default())
    };
    require(rivals().await? == ["another-writer"], "the rival manager is not named")?;
    let precondition = drifted.object.version().unchanged();
    done(scene.apply(subject.shell(1)?, precondition).await?)?;
    let object = scene.object(&reference).await?;
    let size = at(&object, &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "an apply does not take a field of ours back")?;
    require(rivals().await?.is_empty(), "a restored field still belongs to another manager")
}
