//! Cases for refused applies: the error is rejected, has the server's message, and contains no token.

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
        a_refusal_names_the_field_and_the_object,
        a_refusal_repeats_no_token,
        an_apply_of_an_absent_kind_is_rejected,
        a_forbidden_apply_is_an_error,
    })
}

async fn a_refusal_names_the_field_and_the_object(fixture: &Fixture<'_>) -> Outcome {
    for (parameters, field, verb) in [
        (r#"{"size":"huge"}"#, "size", ""),
        (r#"{"size":7}"#, "", ""),
        (r#"{"colour":"blue"}"#, "", "patch"),
    ] {
        let subject = fixture.machine()?.with_parameters(parameters)?;
        let result = fixture.apply(subject.shell(1)?, Precondition::Absent).await;
        // Most users see only the message.
        let message = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        require(rejection_text(result.map(drop))?.contains(field), "the field is not named")?;
        let reference = subject.reference()?;
        let namespace = reference.namespace().unwrap_or_default();
        for part in [verb, reference.kind(), reference.name(), namespace] {
            require(message.contains(part), &format!("a refusal does not name {part}: {message}"))?;
        }
        require(fixture.world.object(&reference).await?.is_none(), "a refused object was stored")?;
        let request = ApplyRequest::open(fixture.project, subject.shell(1)?, Precondition::Absent);
        let result = fixture.cluster.dry_run(&request).await;
        require_rejected(result, "a dry run of an invalid object")?;
    }
    Ok(())
}

async fn a_refusal_repeats_no_token(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.resource(Blueprint::RejectsUserData)?;
    let shell = fixture.apply_shell(&subject).await?;
    let request = || -> Result<_, Violation> {
        Ok(ApplyRequest::sealed(fixture.project, subject.sealed()?, shell.unchanged()))
    };
    let error = rejection_text(fixture.cluster.apply(&request()?).await.map(drop))?;
    require(error.contains("userData"), "the field is not named")?;
    require(!error.contains(CANARY), "a refusal repeats the token")?;
    let error = rejection_text(fixture.cluster.dry_run(&request()?).await.map(drop))?;
    require(!error.contains(CANARY), "the refusal of a dry run repeats the token")
}

async fn an_apply_of_an_absent_kind_is_rejected(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.resource_of_removed_kind().await?;
    let result = fixture.apply(subject.shell(1)?, Precondition::Absent).await;
    require_rejected(result, "an apply of a kind that does not exist")?;
    let observed = fixture.cluster.observe_many(&[subject.xr_target()]).await?;
    let is_absent = matches!(observed[..], [Ok(CachedXr::Absent)]);
    require(is_absent, "a kind that does not exist is not observed as absent")
}

async fn a_forbidden_apply_is_an_error(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let unprivileged = fixture.world.limited_to(&[]).await?;
    let request = ApplyRequest::open(fixture.project, subject.shell(1)?, Precondition::Absent);
    require_rejected(unprivileged.apply(&request).await, "a forbidden apply")?;
    require_rejected(unprivileged.dry_run(&request).await, "a forbidden dry run")?;
    require(fixture.world.object(&subject.reference()?).await?.is_none(), "it was applied")
}

/// The text of a rejected apply, with the debug form and all sources.
pub(super) fn rejection_text(result: Result<(), PortError>) -> Checked<String> {
    let Err(error) = result else { return Err(Violation::new("an invalid apply succeeded")) };
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text} {cause}");
        source = cause.source();
    }
    require_rejected(Err::<(), _>(error), "a refused apply")?;
    Ok(text)
}
