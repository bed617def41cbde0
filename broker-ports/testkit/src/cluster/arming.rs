//! Cases for shell, touch and arm: after a takeover, an older worker can at most apply a shell.

use broker_render::{ARMED_ANNOTATION, EPOCH_ANNOTATION};

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        a_shell_is_paused_and_carries_its_epoch,
        an_arm_injects_the_token_and_removes_the_pause,
        an_older_arm_is_refused_after_a_touch,
        a_reapply_keeps_the_injected_token,
        a_standalone_composite_is_armed_without_a_token,
        an_invalid_arming_annotation_is_not_a_shell,
    })
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "annotations", key])?.as_str()
}

fn holds_token(object: &Value) -> bool {
    at(object, &["spec", "userData"])
        .and_then(Value::as_str)
        .is_some_and(|document| document.contains(CANARY))
}

async fn a_shell_is_paused_and_carries_its_epoch(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let live = scene.live(&subject).await?;
    require(live.armed == Arming::Shell, "a shell is not read as one")?;
    let object = live.object.expose();
    require(annotation(object, PAUSED_ANNOTATION) == Some("true"), "a shell is not paused")?;
    require(annotation(object, EPOCH_ANNOTATION) == Some("1"), "a shell lost its epoch")?;
    require(at(object, &["spec", "userData"]).is_none(), "a shell carries user data")
}

async fn an_arm_injects_the_token_and_removes_the_pause(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    scene.armed(&subject).await?;
    let live = scene.live(&subject).await?;
    let expected = Arming::Armed(Armed::Token(subject.token_id));
    require(live.armed == expected, "it is not armed with its token")?;
    let object = live.object.expose();
    require(holds_token(object), "the token was not injected")?;
    require(annotation(object, PAUSED_ANNOTATION).is_none(), "an armed composite is still paused")?;
    require(annotation(object, EPOCH_ANNOTATION).is_none(), "an armed composite keeps an epoch")
}

async fn an_older_arm_is_refused_after_a_touch(scene: &Scene<'_>) -> Outcome {
    let (subject, shell) = scene.existing_objects().await?;
    done(scene.apply(subject.shell(2)?, shell.unchanged()).await?)?;
    let late = scene.arm(&subject, &shell).await?;
    require(late == Applied::Conflict, "an arm of an older worker lands after a touch")?;
    let live = scene.live(&subject).await?;
    require(live.armed == Arming::Shell, "a refused arm armed")?;
    require(!holds_token(live.object.expose()), "a refused arm injected its token")
}

async fn a_reapply_keeps_the_injected_token(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    scene.armed(&subject).await?;
    let live = scene.live(&subject).await?;
    let changed = subject.with_parameters(r#"{"size":"large"}"#)?;
    let manifest = changed.preserved(live.object.expose())?;
    let precondition = live.object.version().unchanged();
    let request = ApplyRequest::sealed(scene.project, manifest, precondition);
    done(scene.cluster.apply(&request).await?)?;
    let after = scene.live(&changed).await?;
    require(holds_token(after.object.expose()), "a re-apply without the plaintext lost the token")?;
    let size = at(after.object.expose(), &["spec", "parameters", "size"]);
    require(size == Some(&json!("large")), "a re-apply changed nothing")
}

async fn a_standalone_composite_is_armed_without_a_token(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?.standalone();
    let shell = scene.shell(&subject).await?;
    done(scene.apply(subject.armed()?, shell.unchanged()).await?)?;
    let live = scene.live(&subject).await?;
    require(live.armed == Arming::Armed(Armed::Standalone), "it is not armed as standalone")?;
    let object = live.object.expose();
    require(annotation(object, PAUSED_ANNOTATION).is_none(), "it is still paused")?;
    require(at(object, &["spec", "userData"]).is_none(), "something was injected")
}

async fn an_invalid_arming_annotation_is_not_a_shell(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let patch = json!({"metadata": {"annotations": {ARMED_ANNOTATION: "by hand"}}});
    scene.world.patch("kubectl", &subject.reference()?, &patch).await?;
    let live = scene.live(&subject).await?;
    require(live.armed == Arming::Unreadable, "an annotation by hand is read as something else")
}
