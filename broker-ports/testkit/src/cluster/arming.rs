//! Cases for shell, touch and arm.

use broker_render::{ARMED_ANNOTATION, EPOCH_ANNOTATION};

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
        a_shell_is_paused_and_carries_its_epoch,
        an_arm_injects_the_token_and_removes_the_pause,
        an_older_arm_is_refused_after_a_touch,
        a_reapply_keeps_the_injected_token,
        a_standalone_composite_is_armed_without_a_token,
        an_invalid_arming_annotation_is_not_a_shell,
    })
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    field_at(object, &["metadata", "annotations", key])?.as_str()
}

fn contains_token(object: &Value) -> bool {
    field_at(object, &["spec", "userData"])
        .and_then(Value::as_str)
        .is_some_and(|document| document.contains(CANARY))
}

async fn a_shell_is_paused_and_carries_its_epoch(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let live = fixture.live(&subject).await?;
    require(live.armed == Arming::Shell, "a shell is not read as one")?;
    let object = live.object.expose();
    require(annotation(object, PAUSED_ANNOTATION) == Some("true"), "a shell is not paused")?;
    require(annotation(object, EPOCH_ANNOTATION) == Some("1"), "a shell lost its epoch")?;
    require(field_at(object, &["spec", "userData"]).is_none(), "a shell carries user data")
}

async fn an_arm_injects_the_token_and_removes_the_pause(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    fixture.apply_armed(&subject).await?;
    let live = fixture.live(&subject).await?;
    let expected = Arming::Armed(Armed::Token(subject.token_id));
    require(live.armed == expected, "the composite resource is not armed with its token")?;
    let object = live.object.expose();
    require(contains_token(object), "the token was not injected")?;
    require(annotation(object, PAUSED_ANNOTATION).is_none(), "an armed composite is still paused")?;
    require(annotation(object, EPOCH_ANNOTATION).is_none(), "an armed composite keeps an epoch")
}

async fn an_older_arm_is_refused_after_a_touch(fixture: &Fixture<'_>) -> Outcome {
    let (subject, shell) = fixture.machine_with_shell().await?;
    applied_version(fixture.apply(subject.shell(2)?, shell.unchanged()).await?)?;
    let late = fixture.arm(&subject, &shell).await?;
    require(late == Applied::Conflict, "an arm of an older worker succeeds after a touch")?;
    let live = fixture.live(&subject).await?;
    require(live.armed == Arming::Shell, "a refused arm changed the arming")?;
    require(!contains_token(live.object.expose()), "a refused arm injected its token")
}

async fn a_reapply_keeps_the_injected_token(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    fixture.apply_armed(&subject).await?;
    let live = fixture.live(&subject).await?;
    let changed = subject.with_parameters(r#"{"size":"large"}"#)?;
    let manifest = changed.preserved(live.object.expose())?;
    let precondition = live.object.version().unchanged();
    let request = ApplyRequest::sealed(fixture.project, manifest, precondition);
    applied_version(fixture.cluster.apply(&request).await?)?;
    let after = fixture.live(&changed).await?;
    require(contains_token(after.object.expose()), "a re-apply lost the token")?;
    let size = field_at(after.object.expose(), &["spec", "parameters", "size"]);
    require(size == Some(&json!("large")), "a re-apply changed nothing")
}

async fn a_standalone_composite_is_armed_without_a_token(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?.standalone();
    let shell = fixture.apply_shell(&subject).await?;
    applied_version(fixture.apply(subject.armed()?, shell.unchanged()).await?)?;
    let live = fixture.live(&subject).await?;
    require(live.armed == Arming::Armed(Armed::Standalone), "it is not armed as standalone")?;
    let object = live.object.expose();
    require(annotation(object, PAUSED_ANNOTATION).is_none(), "it is still paused")?;
    require(field_at(object, &["spec", "userData"]).is_none(), "user data was injected")
}

async fn an_invalid_arming_annotation_is_not_a_shell(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let patch = json!({"metadata": {"annotations": {ARMED_ANNOTATION: "by hand"}}});
    fixture.world.patch("kubectl", &subject.reference()?, &patch).await?;
    let live = fixture.live(&subject).await?;
    require(live.armed == Arming::Unreadable, "an invalid annotation is not read as unreadable")
}
