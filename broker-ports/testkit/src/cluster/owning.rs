//! Cases for field ownership: an apply sets the broker's fields and keeps all others.

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
        an_apply_keeps_fields_of_other_managers,
        an_apply_removes_fields_it_no_longer_sends,
        an_apply_restores_our_fields_from_other_writers,
    })
}

async fn an_apply_keeps_fields_of_other_managers(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let reference = subject.reference()?;
    let patch = json!({
        "metadata": {"labels": {"team": "blue"}, "annotations": {"note": "hands off"}},
        "spec": {"parameters": {"note": "theirs"}},
    });
    fixture.world.patch("another-writer", &reference, &patch).await?;
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Available",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    fixture.world.patch_status(&reference, &json!({"status": {"conditions": [condition]}})).await?;
    let before = fixture.object(&reference).await?;
    let version = ObjectVersion::of(&before)?;
    applied_version(fixture.apply(subject.shell(2)?, version.unchanged()).await?)?;
    let object = fixture.object(&reference).await?;
    require(before.get("status") == object.get("status"), "an apply changed the status")?;
    for (path, value) in [
        (&["metadata", "labels", "team"][..], "blue"),
        (&["metadata", "annotations", "note"], "hands off"),
        (&["spec", "parameters", "note"], "theirs"),
    ] {
        let is_unchanged = field_at(&object, path) == Some(&json!(value));
        require(is_unchanged, &format!("{} of another owner was changed", path.join(".")))?;
    }
    Ok(())
}

async fn an_apply_removes_fields_it_no_longer_sends(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?.with_parameters(r#"{"note":"ours","size":"small"}"#)?;
    let version = fixture.apply_shell(&subject).await?;
    let subject = subject.with_parameters(r#"{"size":"small"}"#)?;
    applied_version(fixture.apply(subject.shell(1)?, version.unchanged()).await?)?;
    let object = fixture.object(&subject.reference()?).await?;
    let note = field_at(&object, &["spec", "parameters", "note"]);
    require(note.is_none(), "a field that is no longer sent still exists")?;
    let size = field_at(&object, &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "a field that is still sent was removed")
}

async fn an_apply_restores_our_fields_from_other_writers(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let reference = subject.reference()?;
    let patch = json!({"spec": {"parameters": {"size": "large"}}});
    fixture.world.patch("another-writer", &reference, &patch).await?;
    let drifted = fixture.live(&subject).await?;
    let is_unchanged = is_applied(drifted.object.expose(), &subject.shell(1)?);
    require(!is_unchanged, "a change by another writer is not read")?;
    let rival_managers = async || {
        let report = fixture.cluster.inspect(&subject.target()?).await?.xr?;
        Ok::<_, Violation>(report.map(|report| report.rival_managers).unwrap_or_default())
    };
    require(rival_managers().await? == ["another-writer"], "the rival manager is not named")?;
    let precondition = drifted.object.version().unchanged();
    applied_version(fixture.apply(subject.shell(1)?, precondition).await?)?;
    let object = fixture.object(&reference).await?;
    let size = field_at(&object, &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "an apply does not restore our field")?;
    require(rival_managers().await?.is_empty(), "a restored field still belongs to another manager")
}
