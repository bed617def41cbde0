//! Act: conditional server-side apply, and its dry run.

use broker_ports::{
    Applied, ApplyRequest, DryRun, LiveObject, ObjectVersion, PortError, refuse_foreign_write,
};
use broker_render::FIELD_MANAGER;
use http::Method;
use serde_json::Value;

use crate::answer::RefusedAnswer;
use crate::call::Detail;
use crate::error::{Cause, Failure, RequestLabel, Verb};
use crate::kinds::ServedKind;
use crate::objects::Objects;

/// JSON is valid YAML, so the body is sent as JSON.
const APPLY_PATCH: &str = "application/apply-patch+yaml";

enum Outcome {
    Object(Value),
    /// The version precondition failed.
    Conflict,
    /// The version matched, but the uid did not: another object has the name.
    NameTaken,
}

pub(crate) async fn apply(objects: &Objects, request: &ApplyRequest) -> Result<Applied, PortError> {
    refuse_foreign_write(request.project(), request.target())?;
    match send(objects, Verb::Apply, request).await? {
        Outcome::Conflict => Ok(Applied::Conflict),
        Outcome::NameTaken => Ok(Applied::NameTaken),
        Outcome::Object(object) => {
            let version = ObjectVersion::of(&object).map_err(|error| {
                let asked = RequestLabel::of(Verb::Apply, request.target());
                asked.failed(Cause::Unreadable, &error.to_string())
            })?;
            Ok(Applied::Done(version))
        }
    }
}

pub(crate) async fn dry_run(
    objects: &Objects,
    request: &ApplyRequest,
) -> Result<DryRun, PortError> {
    refuse_foreign_write(request.project(), request.target())?;
    match send(objects, Verb::DryRun, request).await? {
        Outcome::Conflict | Outcome::NameTaken => Ok(DryRun::Conflict),
        Outcome::Object(object) => Ok(DryRun::Accepted(LiveObject::from_json(object)?)),
    }
}

async fn send(objects: &Objects, verb: Verb, request: &ApplyRequest) -> Result<Outcome, Failure> {
    let asked = RequestLabel::of(verb, request.target());
    let served = served(objects, &asked, request).await?;
    let target = request.target();
    let Some(path) = served.object(target.namespace(), target.name()) else {
        let text = "the name is incomplete; a namespaced object needs its namespace";
        return Err(asked.failed(Cause::Unaddressable, text));
    };
    // Forced: the broker takes over each field that it sends.
    let mut path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
    let extent = if verb == Verb::DryRun {
        path.push_str("&dryRun=All");
        Detail::Whole
    } else {
        Detail::Metadata
    };
    let body = (APPLY_PATCH, request.expose_for_apply());
    let answer = objects.server().put(&asked, (Method::PATCH, &path), body, extent).await?;
    match answer.into_object(&asked)? {
        Ok(object) => Ok(Outcome::Object(object)),
        Err(refusal) => refused(objects, &asked, request, &served, &refusal).await,
    }
}

/// The endpoint of the kind in exactly the version of the manifest.
async fn served(
    objects: &Objects,
    asked: &RequestLabel,
    request: &ApplyRequest,
) -> Result<ServedKind, Failure> {
    let target = request.target();
    let kind = (target.api_version(), target.kind());
    match objects.kinds().locate(objects.server(), kind).await? {
        Some(served) if served.api_version() == target.api_version() => Ok(served),
        Some(other) => {
            let text = format!("the server serves this kind as {} only", other.api_version());
            Err(asked.failed(Cause::KindAbsent, &text))
        }
        None => Err(asked.failed(Cause::KindAbsent, "the server does not serve this kind")),
    }
}

/// Maps a refusal. Its message may quote the injected token, so the request itself scrubs it.
async fn refused(
    objects: &Objects,
    asked: &RequestLabel,
    request: &ApplyRequest,
    served: &ServedKind,
    refusal: &RefusedAnswer,
) -> Result<Outcome, Failure> {
    let cause = refusal.cause(served.plural());
    if cause == Cause::Conflict {
        return Ok(Outcome::Conflict);
    }
    if matches!(&cause, Cause::Invalid(fields) if fields.iter().any(|field| field == "metadata.uid"))
    {
        return Ok(Outcome::NameTaken);
    }
    if cause == Cause::KindAbsent {
        objects.kinds().forget((request.target().api_version(), request.target().kind()));
    }
    // A field that the schema does not declare, or declares with another type, gets a bare 500 from server-side
    // apply. The object is at fault if the server reports ready.
    let is_the_object = cause == Cause::ServerError(500) && is_ready(objects).await;
    let cause = if is_the_object { Cause::UnprocessableObject } else { cause };
    let failure = asked.failed_saying(cause, refusal.message(), |message| request.scrub(message));
    Err(failure.with_retry_after(refusal.retry_after()))
}

/// Whether the API server reports ready. A refusal to answer, such as 403, proves that it runs.
async fn is_ready(objects: &Objects) -> bool {
    let asked = RequestLabel::about(Verb::Get, "/readyz");
    match objects.server().get(&asked, "/readyz", Detail::Whole).await {
        Err(_) => false,
        Ok(answer) => match answer.into_acceptance() {
            Ok(()) => true,
            Err(refusal) => !matches!(refusal.cause(""), Cause::ServerError(_) | Cause::Throttled),
        },
    }
}
