//! Cases for refusals: rejected, with the server's message and without injected values.

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        a_refusal_names_the_field_and_the_object,
        a_refusal_repeats_no_token,
        an_apply_of_an_absent_kind_is_rejected,
        a_forbidden_apply_is_an_error,
    })
}

async fn a_refusal_names_the_field_and_the_object(scene: &Scene<'_>) -> Outcome {
    for (parameters, field, verb) in [
        (r#"{"size":"huge"}"#, "size", ""),
        (r#"{"size":7}"#, "", ""),
        (r#"{"colour":"blue"}"#, "", "patch"),
    ] {
        let subject = scene.machine()?.with_parameters(parameters)?;
        let answer = scene.apply(subject.shell(1)?, Precondition::Absent).await;
        // Most users see only the message.
        let message = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        require(refusal(answer.map(drop))?.contains(field), "a refusal does not name the field")?;
        let reference = subject.reference()?;
        let namespace = reference.namespace().unwrap_or_default();
        for part in [verb, reference.kind(), reference.name(), namespace] {
            require(message.contains(part), &format!("a refusal does not name {part}: {message}"))?;
        }
        require(scene.world.object(&reference).await?.is_none(), "a refused object was stored")?;
        let request = ApplyRequest::open(scene.project, subject.shell(1)?, Precondition::Absent);
        let answer = scene.cluster.dry_run(&request).await;
        require_rejected(answer, "a dry run of an invalid object")?;
    }
    Ok(())
}

async fn a_refusal_repeats_no_token(scene: &Scene<'_>) -> Outcome {
    let subject = scene.resource(Blueprint::Picky)?;
    let shell = scene.shell(&subject).await?;
    let request = || -> Result<_, Violation> {
        Ok(ApplyRequest::sealed(scene.project, subject.sealed()?, shell.unchanged()))
    };
    let error = refusal(scene.cluster.apply(&request()?).await.map(drop))?;
    require(error.contains("userData"), "a refusal does not name the field")?;
    require(!error.contains(CANARY), "a refusal repeats the token")?;
    let error = refusal(scene.cluster.dry_run(&request()?).await.map(drop))?;
    require(!error.contains(CANARY), "the refusal of a dry run repeats the token")
}

async fn an_apply_of_an_absent_kind_is_rejected(scene: &Scene<'_>) -> Outcome {
    let subject = scene.of_an_absent_kind().await?;
    let answer = scene.apply(subject.shell(1)?, Precondition::Absent).await;
    require_rejected(answer, "an apply of a kind that does not exist")?;
    let seen = scene.cluster.observe_many(&[subject.xr_target()]).await?;
    let absent = matches!(seen[..], [Ok(CachedXr::Absent)]);
    require(absent, "a kind that does not exist is not observed as absent")
}

async fn a_forbidden_apply_is_an_error(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let unprivileged = scene.world.limited_to(&[]).await?;
    let request = ApplyRequest::open(scene.project, subject.shell(1)?, Precondition::Absent);
    require_rejected(unprivileged.apply(&request).await, "a forbidden apply")?;
    require_rejected(unprivileged.dry_run(&request).await, "a forbidden dry run")?;
    require(
        scene.world.object(&subject.reference()?).await?.is_none(),
        "a forbidden apply happened",
    )
}

/// A refusal with its whole text.
pub(super) fn refusal(answer: Result<(), PortError>) -> Checked<String> {
    let Err(error) = answer else { return Err(Violation::new("an invalid apply succeeded")) };
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text} {cause}");
        source = cause.source();
    }
    require_rejected(Err::<(), _>(error), "a refused apply")?;
    Ok(text)
}
