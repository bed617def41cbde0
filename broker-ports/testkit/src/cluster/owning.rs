//! Field ownership: what is ours follows what we send, what is not ours stays.

use broker_render::{Digest, owned_digest};

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        fields_of_others_stay,
        status_of_others_stays,
        what_we_no_longer_send_goes,
        what_others_changed_of_ours_is_taken_back,
        the_owned_digest_is_that_of_what_was_sent,
        the_owned_digest_changes_with_drift,
    })
}

async fn fields_of_others_stay(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    let reference = subject.reference()?;
    let patch = json!({
        "metadata": {"labels": {"team": "blue"}, "annotations": {"note": "hands off"}},
        "spec": {"parameters": {"note": "theirs"}},
    });
    scene.world.patch("somebody", &reference, &patch).await?;
    let version = ObjectVersion::of(&scene.object(&reference).await?)?;
    done(scene.apply(subject.shell(2)?, version.unchanged()).await?)?;
    let object = scene.object(&reference).await?;
    for (path, value) in [
        (&["metadata", "labels", "team"][..], "blue"),
        (&["metadata", "annotations", "note"], "hands off"),
        (&["spec", "parameters", "note"], "theirs"),
    ] {
        let stays = at(&object, path) == Some(&json!(value));
        require(stays, &format!("{} of somebody else did not stay", path.join(".")))?;
    }
    Ok(())
}

async fn status_of_others_stays(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    let reference = subject.reference()?;
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Available",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    scene.world.patch_status(&reference, &json!({"status": {"conditions": [condition]}})).await?;
    let before = scene.object(&reference).await?;
    let version = ObjectVersion::of(&before)?;
    done(scene.apply(subject.shell(2)?, version.unchanged()).await?)?;
    let after = scene.object(&reference).await?;
    require(before.get("status") == after.get("status"), "an apply changed the status")
}

async fn what_we_no_longer_send_goes(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?.with_parameters(r#"{"note":"ours","size":"small"}"#)?;
    let version = scene.shell(&subject).await?;
    let subject = subject.with_parameters(r#"{"size":"small"}"#)?;
    done(scene.apply(subject.shell(1)?, version.unchanged()).await?)?;
    let object = scene.object(&subject.reference()?).await?;
    let note = at(&object, &["spec", "parameters", "note"]);
    require(note.is_none(), "a field that we no longer send still stands")?;
    let size = at(&object, &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "a field that we still send went along")
}

async fn what_others_changed_of_ours_is_taken_back(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    let reference = subject.reference()?;
    let patch = json!({"spec": {"parameters": {"size": "large"}}});
    scene.world.patch("somebody", &reference, &patch).await?;
    let drifted = scene.live(&subject).await?;
    let stands = is_applied(drifted.object.expose(), &subject.shell(1)?);
    require(!stands, "a change by somebody else does not show")?;
    let precondition = drifted.object.version().unchanged();
    done(scene.apply(subject.shell(1)?, precondition).await?)?;
    let object = scene.object(&reference).await?;
    let size = at(&object, &["spec", "parameters", "size"]);
    require(size == Some(&json!("small")), "an apply does not take a field of ours back")?;
    let report = scene.cluster.inspect(&subject.target()?).await?.xr?;
    let rivals = report.map(|report| report.rival_managers).unwrap_or_default();
    require(rivals.is_empty(), "a field that was taken back still belongs to somebody else")
}

async fn the_owned_digest_is_that_of_what_was_sent(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    scene.armed(&subject).await?;
    let sent = subject.armed()?;
    let patch = json!({"metadata": {"labels": {"team": "blue"}}});
    scene.world.patch("somebody", &subject.reference()?, &patch).await?;
    let live = scene.live(&subject).await?;
    let digest = owned_digest(live.object.expose());
    require(digest == Some(sent.digest()), "what stands under our name is not what was sent")?;
    require(is_applied(live.object.expose(), &sent), "what was sent does not stand")
}

async fn the_owned_digest_changes_with_drift(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    let sent = subject.shell(1)?.digest();
    until_digest(scene, &subject, "what was sent never shows", |owned| owned == sent).await?;
    let drift = [
        json!({"spec": {"parameters": {"size": "large"}}}),
        json!({"spec": {"parameters": {"size": Value::Null}}}),
    ];
    for patch in drift {
        scene.world.patch("somebody", &subject.reference()?, &patch).await?;
        until_digest(scene, &subject, "drift never shows", |owned| owned != sent).await?;
    }
    Ok(())
}

/// Waits until an observation shows a digest that is wanted.
async fn until_digest(
    scene: &Scene<'_>,
    subject: &Subject,
    otherwise: &str,
    wanted: impl Fn(Digest) -> bool + Send + Sync,
) -> Outcome {
    for _ in 0..ROUNDS {
        let seen = scene.cluster.observe_many(&[subject.xr_target()]).await?;
        match seen.into_iter().next().transpose()? {
            Some(CachedXr::Seen { owned, .. }) if wanted(owned) => return Ok(()),
            Some(_) | None => scene.world.settle().await,
        }
    }
    Err(Violation::new(format!("{otherwise} in the digest of an observation")))
}
